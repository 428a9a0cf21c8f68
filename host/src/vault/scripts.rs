//! Formulas in JavaScript: their check when they arrive, and their text when they run.
//!
//! What runs them is one program for all of them; see `runtime::script`. A script's text is kept sealed as components
//! are, and those used last stay in memory, by the digest of their bytes, with what their top levels left.

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::programs::Asked;
use super::run_error::RunError;
use super::{Error, Vault};
use crate::crypto::hash::sha256_hex;
use crate::limits::{SCRIPTS_KEPT, SCRIPTS_KEPT_BYTES};
use crate::model::formula::{Formula, Language};
use crate::model::id::TenantId;
use crate::runtime::{Failure, Program, SCRIPT_RUNNER, Script, ScriptError};

/// Scripts, by digest.
pub struct Scripts(Cache<String, Kept, Bytes>);

/// A script, and the bytes that it is counted with.
#[derive(Clone)]
struct Kept {
    script: Script,
    counted: usize,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<String, Kept> for Bytes {
    fn weight(&self, digest: &String, kept: &Kept) -> u64 {
        (digest.len() + kept.counted) as u64
    }
}

impl Default for Scripts {
    fn default() -> Self {
        // In one piece: a part of it may be less than one script takes.
        let mut options = OptionsBuilder::new();
        options.shards(1).estimated_items_capacity(SCRIPTS_KEPT);
        let options = options.weight_capacity(SCRIPTS_KEPT_BYTES).build();
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        match options {
            Ok(options) => Self(Cache::with_options(options, Bytes, hasher, lifecycle)),
            Err(_) => Self(Cache::with_weighter(SCRIPTS_KEPT, SCRIPTS_KEPT_BYTES, Bytes)),
        }
    }
}

impl Scripts {
    fn find(&self, digest: &str) -> Option<Script> {
        let Kept { script, counted } = self.0.get(digest)?;
        // From its first run on it is known what that adds to it.
        if script.bytes() != counted {
            self.keep(digest, &script);
        }
        Some(script)
    }

    fn keep(&self, digest: &str, script: &Script) {
        let kept = Kept { script: script.clone(), counted: script.bytes() };
        self.0.insert(digest.to_owned(), kept);
    }
}

impl Vault {
    /// The program that a formula is run by: its own, or the one of all scripts with its script.
    /// [`Error::Replaced`] when that was replaced since the formula was read.
    pub(super) async fn program_of(
        &self,
        tenant: TenantId,
        formula: &Formula,
    ) -> Result<Program, Error> {
        match formula.language {
            Language::Wasm => {
                let component = || self.component(tenant, formula.id);
                self.program(Asked::to_run(formula), component).await
            }
            Language::Javascript => {
                let runner = self.script_runner().await?;
                Ok(runner.of_script(self.script(tenant, formula).await?))
            }
        }
    }

    /// Checks a script; gives its digest.
    pub(super) async fn verify_script(
        &self,
        tenant: TenantId,
        code: &str,
    ) -> Result<String, Error> {
        let runner = self.script_runner().await?;
        let owner = tenant.0.as_u128();
        self.0.runtime.check_script(&runner, code.into(), owner).await.map_err(unchecked)??;
        Ok(sha256_hex(code.as_bytes()))
    }

    async fn script_runner(&self) -> Result<Program, Error> {
        let bytes = || std::future::ready(Ok(SCRIPT_RUNNER.to_vec()));
        self.program(Asked::script_runner(), bytes).await
    }

    async fn script(&self, tenant: TenantId, formula: &Formula) -> Result<Script, Error> {
        let digest = &formula.component_digest;
        if let Some(script) = self.0.scripts.find(digest) {
            return Ok(script);
        }
        let bytes = self.component(tenant, formula.id).await?;
        // As with components: what is kept under a digest is what has it.
        if sha256_hex(&bytes) != *digest {
            return Err(Error::Replaced);
        }
        let text = String::from_utf8(bytes).map_err(Error::internal)?;
        let script = Script::new(text.into());
        self.0.scripts.keep(digest, &script);
        Ok(script)
    }
}

/// What kept a script from being checked, as a run would end by it.
fn unchecked(failure: Failure) -> Error {
    match failure {
        Failure::OwnerOutOfMemory => Error::Run(Box::new(RunError::TenantsMemory)),
        Failure::HostOutOfMemory => {
            tracing::warn!("a script cannot be checked: the reactors hold all the memory they may");
            Error::Run(Box::new(RunError::NoMemory))
        }
        Failure::NoSandbox(cause) => {
            Error::Run(Box::new(RunError::no_sandbox(&cause, "a script to be checked")))
        }
        failure => ScriptError::from(failure).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::Scripts;
    use crate::limits::{SCRIPT_IMAGE_BYTES_MAX, SCRIPTS_KEPT_BYTES};
    use crate::runtime::Script;

    #[test]
    fn scripts_that_may_still_grow_are_counted_as_if_they_had() {
        let scripts = Scripts::default();
        let most = usize::try_from(SCRIPTS_KEPT_BYTES).unwrap() / SCRIPT_IMAGE_BYTES_MAX;
        for number in 0..10 * most {
            scripts.keep(&number.to_string(), &Script::new("1".into()));
            assert!(scripts.0.weight() <= SCRIPTS_KEPT_BYTES, "{number}");
        }
        assert!((1..=most).contains(&scripts.0.len()), "{}", scripts.0.len());
        // The largest there can be is kept.
        let long = Script::new("x".repeat(1 << 20).into());
        scripts.keep("long", &long);
        assert!(scripts.find("long").is_some());
    }
}
