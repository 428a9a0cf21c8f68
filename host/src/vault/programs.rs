//! Compiled components, by the digest of their bytes.
//!
//! The most recently used programs stay in memory, so many bytes of their code, of which one tenant's take at most half:
//! one tenant's uploads do not shove out everybody's. Those of the formulas that ship with the product belong to nobody,
//! stay, and do not count. All code lies on disk; see `runtime::cache`. Compiling happens once per component and engine.
//! One that is refused is not tried again for a while for runs: each of those that wait would take the compiler for its
//! time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tracing::Instrument as _;

use super::{Error, Vault, official};
use crate::crypto::hash::sha256_hex;
use crate::model::formula::{Formula, Language};
use crate::model::id::TenantId;
use crate::runtime::{
    CompileError, ComponentError, Place, Program, Purpose, Wanted, script_runner_digest,
};

mod refused;
#[cfg(test)]
mod tests;
mod unused;

use refused::Refused;
use unused::Unused;

/// Bytes of one program of a tenant: while it is loaded there are some copies of them.
const PROGRAM_BYTES_MAX: u64 = 128 << 20;
/// Bytes that a program is counted with beside its code, and before it is there.
const ENTRY_BYTES: u64 = 64 << 10;

/// A program, or why there is none.
type Known = Result<Program, ComponentError>;
type Slot = Arc<Sought>;

/// What a program is put into once it is there.
#[derive(Default)]
struct Sought {
    known: OnceCell<Known>,
    /// Whoever compiles it may do so for nobody in particular; a run that comes to wait for it does not stand back with it.
    wanted: Wanted,
}

/// Programs at hand.
pub struct Programs {
    /// Of all tenants' code.
    bytes_max: u64,
    kept: Mutex<Kept>,
    refused: Refused,
    /// Code on disk that no formula has.
    pub unused: Unused,
}

#[derive(Default)]
struct Kept {
    by_digest: HashMap<String, Entry>,
    uses: u64,
}

struct Entry {
    slot: Slot,
    /// When it was used last, counted in uses.
    used: u64,
    /// Who brought it here; nobody for what ships with the product.
    owner: Option<TenantId>,
    bytes: u64,
}

/// Which program is asked for, and for whom.
pub struct Asked<'d> {
    digest: &'d str,
    owner: Option<TenantId>,
    why: Why,
}

/// Why a program is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// Somebody waits for its answer.
    Run,
    /// To see whether it is one.
    Upload,
    /// To have it once it is run.
    Ahead,
}

impl<'d> Asked<'d> {
    /// A formula's, to run it.
    pub fn to_run(formula: &'d Formula) -> Self {
        match formula.language {
            Language::Wasm => {
                let owner = formula.tenant_id;
                Self { digest: &formula.component_digest, owner, why: Why::Run }
            }
            Language::Javascript => Asked::script_runner(),
        }
    }

    /// What runs scripts: it ships with the product.
    pub fn script_runner() -> Asked<'static> {
        Asked { digest: script_runner_digest(), owner: None, why: Why::Run }
    }

    /// An uploaded component's, to see whether there is one.
    pub fn to_check(digest: &'d str, tenant: TenantId) -> Self {
        Self { digest, owner: Some(tenant), why: Why::Upload }
    }

    /// The same, before anybody waits for it.
    fn ahead(self) -> Self {
        Self { why: Why::Ahead, ..self }
    }

    /// The owner as the runtime counts it; 0 for what ships with the product.
    fn number(&self) -> u128 {
        self.owner.map_or(0, |tenant| tenant.0.as_u128())
    }
}

impl Programs {
    /// Keeps so many bytes of code.
    pub fn new(bytes_max: u64) -> Self {
        let (kept, refused, unused) = Default::default();
        Self { bytes_max, kept, refused, unused }
    }

    /// What is known of a program, marked as just used.
    fn at_hand(&self, digest: &str) -> Option<Known> {
        let mut kept = self.kept.lock();
        kept.touch(digest)?.slot.known.get().cloned()
    }

    /// The slot of a program, marked as just used.
    fn slot(&self, digest: &str, owner: Option<TenantId>) -> Slot {
        let mut kept = self.kept.lock();
        if let Some(entry) = kept.touch(digest) {
            // What ships with the product is nobody's, whoever had it before.
            entry.owner = entry.owner.and(owner);
            return Arc::clone(&entry.slot);
        }
        let (slot, used) = (Slot::default(), kept.uses);
        let entry = Entry { slot: Arc::clone(&slot), used, owner, bytes: ENTRY_BYTES };
        kept.by_digest.insert(digest.to_owned(), entry);
        kept.make_room(digest, self.bytes_max);
        slot
    }

    /// Counts what a slot was filled with; the longest unused programs make room.
    fn weigh(&self, digest: &str, slot: &Slot, program: &Program) {
        let mut kept = self.kept.lock();
        if let Some(entry) = kept.by_digest.get_mut(digest).filter(|entry| entry.is(slot)) {
            entry.bytes = ENTRY_BYTES + program.memory_bytes();
            kept.make_room(digest, self.bytes_max);
        }
    }

    /// Gives up a slot: whoever waits for it learns why, and whoever comes later tries again.
    fn forget(&self, digest: &str, slot: &Slot) {
        let mut kept = self.kept.lock();
        if kept.by_digest.get(digest).is_some_and(|entry| entry.is(slot)) {
            kept.by_digest.remove(digest);
        }
    }

    /// Bytes of code that one owner's program may take.
    fn of_owner(&self) -> u64 {
        (self.bytes_max / 2).saturating_sub(ENTRY_BYTES).min(PROGRAM_BYTES_MAX)
    }

    /// A program, unless it alone is more than a tenant may have: whatever runs is to be shared by all of its runs.
    fn admit(&self, program: Program, owner: Option<TenantId>) -> Known {
        let fits = owner.is_none() || program.memory_bytes() <= self.of_owner();
        if fits { Ok(program) } else { Err(ComponentError::CodeTooLarge) }
    }
}

impl Entry {
    fn is(&self, slot: &Slot) -> bool {
        Arc::ptr_eq(&self.slot, slot)
    }
}

impl Kept {
    fn touch(&mut self, digest: &str) -> Option<&mut Entry> {
        self.uses += 1;
        let entry = self.by_digest.get_mut(digest)?;
        entry.used = self.uses;
        Some(entry)
    }

    /// Lets go of programs until this one fits, of its owner's first.
    fn make_room(&mut self, digest: &str, bytes_max: u64) {
        let owner = self.by_digest.get(digest).and_then(|entry| entry.owner);
        if owner.is_some() {
            self.reduce(digest, bytes_max / 2, |entry| entry.owner == owner);
            self.reduce(digest, bytes_max, |entry| entry.owner.is_some());
        }
    }

    /// Lets go of the longest unused of these, but not of this one, until they have at most so many bytes.
    fn reduce(&mut self, digest: &str, most: u64, these: impl Fn(&Entry) -> bool) {
        let mut found: Vec<_> = self.by_digest.iter().filter(|(_, entry)| these(entry)).collect();
        let mut bytes: u64 = found.iter().map(|(_, entry)| entry.bytes).sum();
        if bytes <= most {
            return;
        }
        found.sort_unstable_by_key(|(_, entry)| entry.used);
        let mut gone = Vec::new();
        for (name, entry) in found.into_iter().filter(|(name, _)| *name != digest) {
            if bytes <= most {
                break;
            }
            bytes -= entry.bytes;
            gone.push(name.clone());
        }
        for name in gone {
            self.by_digest.remove(&name);
        }
    }
}

impl Vault {
    /// Compiles the formulas that ship with the product, ahead of their first use. What somebody waits for goes before them.
    pub async fn compile_official(&self) {
        for official in official::all() {
            let bytes = || std::future::ready(Ok(official.component.to_vec()));
            if let Err(error) = self.program(Asked::to_run(&official.formula).ahead(), bytes).await
            {
                tracing::error!(formula = official.formula.name, ?error, "does not compile");
            }
        }
    }

    /// The program of a formula, if it is at hand.
    pub(super) fn program_at_hand(&self, formula: &Formula) -> Option<Result<Program, Error>> {
        let known = self.0.programs.at_hand(Asked::to_run(formula).digest)?;
        Some(known.map_err(Error::from))
    }

    /// The program of a digest: at hand, kept on disk, or compiled from `bytes`; requests for one digest load or compile it
    /// once. [`Error::Busy`] for an upload when too many are under way.
    pub(super) async fn program<F>(
        &self,
        asked: Asked<'_>,
        bytes: impl FnOnce() -> F,
    ) -> Result<Program, Error>
    where
        F: Future<Output = Result<Vec<u8>, Error>>,
    {
        let Asked { digest, owner, why } = asked;
        if let Some(known) = self.0.programs.at_hand(digest) {
            return Ok(known?);
        }
        // Who uploads one has it tried in any case.
        if why == Why::Run
            && let refused = &self.0.programs.refused
            && let Some(refusal) = refused.find(&(owner, digest.to_owned()), Instant::now())
        {
            return Err(refusal.into());
        }
        let number = asked.number();
        let place = if why == Why::Upload { Some(self.place(number)?) } else { None };
        let slot = self.0.programs.slot(digest, owner);
        let wanted = slot.wanted.clone();
        let purpose = match (why, place) {
            (Why::Run, _) => {
                wanted.tell();
                Purpose::run(number)
            }
            (_, Some(place)) => Purpose::upload(place, wanted),
            (_, None) => Purpose::ahead(wanted),
        };
        let purpose = match owner {
            Some(_) => purpose.within(self.0.programs.of_owner()),
            None => purpose,
        };
        let filling = Filling { vault: self.clone(), digest: digest.to_owned(), owner, slot };
        // Tasks of their own: whoever gives up waiting leaves the work to those that come after.
        let loading = filling.clone().load();
        let loaded = tokio::spawn(loading.in_current_span()).await.map_err(Error::internal)?;
        if let Some(known) = loaded? {
            return Ok(known?);
        }
        let bytes = bytes().await?;
        // The component may have been replaced since its digest was read. What is kept under a digest is what has it:
        // other formulas, of other tenants too, run by it.
        if sha256_hex(&bytes) != digest {
            return Err(Error::Replaced);
        }
        let compiling = filling.compile(bytes, purpose);
        tokio::spawn(compiling.in_current_span()).await.map_err(Error::internal)?
    }

    /// A place for an upload.
    fn place(&self, owner: u128) -> Result<Place, Error> {
        let busy = "Too many components are being compiled; try again.";
        self.0.runtime.place(owner).ok_or(Error::Busy(busy))
    }
}

/// A slot that is being filled.
#[derive(Clone)]
struct Filling {
    vault: Vault,
    digest: String,
    owner: Option<TenantId>,
    slot: Slot,
}

impl Filling {
    /// By what is kept on disk, if anything is.
    async fn load(self) -> Result<Option<Known>, Error> {
        let load = async || {
            let loaded = self.vault.0.runtime.load(&self.digest).await;
            let program = loaded.map_err(|error| Some(Error::from(error)))?.ok_or(None::<Error>)?;
            Ok::<_, Option<Error>>(self.vault.0.programs.admit(program, self.owner))
        };
        let known = match self.slot.known.get_or_try_init(load).await {
            Ok(known) => known.clone(),
            Err(None) => return Ok(None),
            Err(Some(error)) => return Err(error),
        };
        self.settle(&known);
        Ok(Some(known))
    }

    /// By compiling. A component that is refused is so for all who wait: each of them trying again would take the compiler
    /// for hours.
    async fn compile(self, bytes: Vec<u8>, purpose: Purpose) -> Result<Program, Error> {
        let compile = async || match self.vault.0.runtime.compile(bytes, purpose).await {
            Ok(program) => Ok(self.vault.0.programs.admit(program, self.owner)),
            Err(CompileError::Component(refusal)) => Ok(Err(refusal)),
            Err(fault) => Err(Error::from(fault)),
        };
        let known = self.slot.known.get_or_try_init(compile).await?.clone();
        // Whoever it is for may be gone, and its formula too.
        self.vault.0.programs.unused.look();
        self.settle(&known);
        Ok(known?)
    }

    /// Counts what came of it; a refusal takes no room among programs.
    fn settle(&self, known: &Known) {
        let programs = &self.vault.0.programs;
        match known {
            Ok(program) => {
                programs.refused.forget(&(self.owner, self.digest.clone()));
                programs.weigh(&self.digest, &self.slot, program);
            }
            Err(refusal) => {
                let component = (self.owner, self.digest.clone());
                programs.refused.keep(component, refusal, Instant::now());
                programs.forget(&self.digest, &self.slot);
            }
        }
    }
}
