//! `/reactor-formulas` (decisions §6).

use axum::extract::State as Shared;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::State;
use super::body::{ComponentBody, LargeBody};
use super::declared::{
    ConflictRefusals, FormulaRefusals, ListParameters, ReadRefusals, Refusals, relaxed,
};
use super::envelope::{Created, Paginated, Reply};
use super::extract::{Id, Permitted};
use super::problem::Rejection;
use super::query::Query;
use crate::model::formula::Language;
use crate::model::id::FormulaId;
use crate::model::permission::marker::{ReactorCreate, ReactorDelete, ReactorRead, ReactorUpdate};
use crate::vault::{FormulaView, WriteFormula};

/// Create a formula.
#[utoipa::path(post, operation_id = "create_formula", path = "/reactor-formulas", tag = "formulas", request_body = WriteFormula,
    responses((status = 201, description = "The formula", body = FormulaView), FormulaRefusals))]
pub async fn create(
    Permitted(permit): Permitted<ReactorCreate>,
    Shared(state): Shared<State>,
    LargeBody(body, _place, _room): LargeBody<WriteFormula>,
) -> Result<Created<FormulaView>, Rejection> {
    let body = state.vault.create_formula(&permit, body).await?;
    Ok(Created { location: format!("/reactor-formulas/{}", body.id), body })
}

/// List formulas.
#[utoipa::path(get, operation_id = "list_formulas", path = "/reactor-formulas", tag = "formulas",
    params(ListParameters,
        ("id" = Option<Vec<FormulaId>>, Query, description = "Only these; repeatable"),
        ("name" = Option<String>, Query, description = "Only this name; `*` stands for any characters")),
    responses((status = 200, description = "A page of formulas", body = Paginated<FormulaView>), Refusals))]
pub async fn list(
    Permitted(permit): Permitted<ReactorRead>,
    Shared(state): Shared<State>,
    mut query: Query,
) -> Result<Reply<Paginated<FormulaView>>, Rejection> {
    let page = query.page();
    let ids = query.every("id");
    let name = query.first("name").map(str::to_owned);
    let (page, ids, name) = query.checked((page, ids, name))?;
    Ok(Reply(state.vault.list_formulas(&permit, ids, name.as_deref(), &page).await?.into()))
}

/// Show a formula.
#[utoipa::path(get, operation_id = "get_formula", path = "/reactor-formulas/{id}", tag = "formulas", params(("id" = FormulaId, Path)),
    responses((status = 200, description = "The formula", body = FormulaView), ReadRefusals))]
pub async fn find(
    Permitted(permit): Permitted<ReactorRead>,
    Shared(state): Shared<State>,
    Id(id): Id<FormulaId>,
) -> Result<Reply<FormulaView>, Rejection> {
    Ok(Reply(state.vault.find_formula(&permit, id).await?))
}

/// As the body of a new formula, where the code may be absent.
pub enum UpdateFormula {}

impl PartialSchema for UpdateFormula {
    fn schema() -> RefOr<Schema> {
        let text = "Body of `PUT /reactor-formulas/{id}`; without a component or code, what is there stays.";
        relaxed::<WriteFormula>(text, &[])
    }
}

impl ToSchema for UpdateFormula {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        WriteFormula::schemas(schemas);
    }
}

/// Replace a formula's description, and its code if the body has any.
#[utoipa::path(put, operation_id = "update_formula", path = "/reactor-formulas/{id}", tag = "formulas", params(("id" = FormulaId, Path)),
    request_body = UpdateFormula,
    responses((status = 200, description = "The formula", body = FormulaView), FormulaRefusals))]
pub async fn update(
    Permitted(permit): Permitted<ReactorUpdate>,
    Shared(state): Shared<State>,
    Id(id): Id<FormulaId>,
    LargeBody(body, _place, _room): LargeBody<WriteFormula>,
) -> Result<Reply<FormulaView>, Rejection> {
    Ok(Reply(state.vault.update_formula(&permit, id, body).await?))
}

/// Delete a formula that no reactor uses.
#[utoipa::path(delete, operation_id = "delete_formula", path = "/reactor-formulas/{id}", tag = "formulas", params(("id" = FormulaId, Path)),
    responses((status = 204, description = "The formula is gone"), ConflictRefusals))]
pub async fn delete(
    Permitted(permit): Permitted<ReactorDelete>,
    Shared(state): Shared<State>,
    Id(id): Id<FormulaId>,
) -> Result<StatusCode, Rejection> {
    state.vault.delete_formula(&permit, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A WebAssembly component, as it is.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "only the description reads it")]
struct Wasm(Vec<u8>);

/// Download a formula's component, or its script as `text/javascript`.
#[utoipa::path(get, operation_id = "get_formula_component", path = "/reactor-formulas/{id}/component", tag = "formulas",
    params(("id" = FormulaId, Path)),
    responses((status = 200, description = "The component or the script",
        content((inline(Wasm) = "application/wasm"), (String = "text/javascript"))), ReadRefusals))]
pub async fn component(
    Permitted(permit): Permitted<ReactorRead>,
    Shared(state): Shared<State>,
    Id(id): Id<FormulaId>,
) -> Result<Response, Rejection> {
    let (language, bytes) = state.vault.find_component(&permit, id).await?;
    let kind = match language {
        Language::Wasm => "application/wasm",
        Language::Javascript => "text/javascript; charset=utf-8",
    };
    Ok(([(header::CONTENT_TYPE, kind)], bytes).into_response())
}

/// Replace a formula's component.
#[utoipa::path(put, operation_id = "update_formula_component", path = "/reactor-formulas/{id}/component", tag = "formulas",
    params(("id" = FormulaId, Path)),
    request_body(content = inline(Wasm), content_type = "application/wasm"),
    responses((status = 200, description = "The formula", body = FormulaView), FormulaRefusals))]
pub async fn update_component(
    Permitted(permit): Permitted<ReactorUpdate>,
    Shared(state): Shared<State>,
    Id(id): Id<FormulaId>,
    ComponentBody(bytes, _place, _room): ComponentBody,
) -> Result<Reply<FormulaView>, Rejection> {
    Ok(Reply(state.vault.update_component(&permit, id, bytes).await?))
}
