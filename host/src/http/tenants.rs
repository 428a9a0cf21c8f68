//! `/tenants/self` (decisions §2).

use axum::extract::State as Shared;

use super::State;
use super::body::Body;
use super::declared::Refusals;
use super::envelope::Reply;
use super::extract::Permitted;
use super::problem::Rejection;
use crate::model::permission::marker::{TenantRead, TenantUpdate};
use crate::vault::{Tenant, UpdateTenant};

/// Show the caller's tenant.
#[utoipa::path(get, operation_id = "get_tenant", path = "/tenants/self", tag = "tenants",
    responses((status = 200, description = "The tenant", body = Tenant), Refusals))]
pub async fn find(
    Permitted(permit): Permitted<TenantRead>,
    Shared(state): Shared<State>,
) -> Result<Reply<Tenant>, Rejection> {
    Ok(Reply(state.vault.find_own_tenant(&permit).await?))
}

/// Change the caller's tenant.
#[utoipa::path(put, operation_id = "update_tenant", path = "/tenants/self", tag = "tenants", request_body = UpdateTenant,
    responses((status = 200, description = "The tenant", body = Tenant), Refusals))]
pub async fn update(
    Permitted(permit): Permitted<TenantUpdate>,
    Shared(state): Shared<State>,
    Body(body, _room): Body<UpdateTenant>,
) -> Result<Reply<Tenant>, Rejection> {
    Ok(Reply(state.vault.update_own_tenant(&permit, body).await?))
}
