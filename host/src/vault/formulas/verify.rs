//! What the code of a formula must pass before it is kept.

use super::Code;
use crate::crypto::hash::sha256_hex;
use crate::model::formula::Language;
use crate::model::permission::Grant;
use crate::vault::permit::Permit;
use crate::vault::programs::Asked;
use crate::vault::{Error, Vault};

impl Vault {
    /// Checks and compiles a component, or parses a script; gives its digest. That may take minutes: who asked must still be
    /// whoever may.
    pub(super) async fn verify<P: Grant>(
        &self,
        permit: &Permit<P>,
        code: &Code,
    ) -> Result<String, Error> {
        let (tenant, bytes) = (permit.tenant(), code.bytes.as_slice());
        let digest = if code.language == Language::Javascript {
            let text = std::str::from_utf8(bytes).map_err(Error::internal)?;
            self.verify_script(tenant, text).await?
        } else {
            let digest = sha256_hex(bytes);
            let asked = Asked::to_check(&digest, tenant);
            self.program(asked, || std::future::ready(Ok(bytes.to_vec()))).await?;
            digest
        };
        self.expect_unchanged(&permit.authenticated()).await?;
        Ok(digest)
    }
}
