//! Looking into records for those who check them: whether each opens, and is found by what it says.
//!
//! To add a kind of record: a row in [`Look::fault`].

use std::collections::HashMap;
use std::sync::Arc;

use super::answers::KeptAnswer;
use super::audit::KeptEntry;
use super::erase::ErasedTenant;
use super::formulas::Component;
use super::index::{FoundBy, Index};
use super::invocations::Invocation;
use super::jobs::{Delivery, Job};
use super::kept_application::KeptApplication;
use super::last_place::LastPlace;
use super::names::{Named, has_pieces, terms_of_name};
use super::record::{Entity, collected, kind};
use super::rotation::{OLD_KEYS_ID, ROTATION_NOTE_ID, Resealing};
use super::sealed_keys::{KEYS_ID, NEXT_ID, SYSTEM_TENANT, open_system_keys, open_tenant_keys};
use super::sessions::Session;
use super::steady::BelievedTime;
use super::tenants::Tenant;
use super::tokens::Token;
use super::webhooks::SigningSecrets;
use crate::crypto::entropy::Entropy;
use crate::crypto::hash;
use crate::crypto::integrity::{IntegrityKey, digest};
use crate::crypto::keys::{RootKey, SystemKeys, TenantKeys};
use crate::crypto::seal::{self, Key, Place};
use crate::model::case::{FOLDS, Fold};
use crate::model::formula::{Formula, Reactor};
use crate::model::id::TenantId;
use crate::store::{Examined, Examiner, Kind, Protection, Record, Term, TextDigest};

const UNOPENED: &str = "does not open";
const NO_KEYS: &str = "its tenant's keys are not there or do not open";
const ANOTHER: &str = "holds something else than what its place says";
const NOT_FOUND_BY: &str = "is found by something else than what it holds";
const UNKNOWN: &str = "is of an unknown kind";

/// The store's protection, under a key that follows from the vault's own ones: it stays when the root key changes.
pub fn protection(system: &SystemKeys, entropy: Arc<dyn Entropy>) -> Protection {
    let parts: [&[u8]; 2] = [b"derived key", b"integrity of the store"];
    let secret = Key::from(hash::keyed(&system.pepper, &parts));
    Protection { key: IntegrityKey::derive(&secret), entropy }
}

/// What the chain holds of an entry's text.
pub fn text_digest(text: &[u8]) -> TextDigest {
    TextDigest(digest(&[b"log entry", text]))
}

/// What a message calls a kind of record.
pub fn noun(kind: Kind) -> &'static str {
    match kind {
        kind::SYSTEM => "system keys",
        kind::TENANT => Tenant::NOUN,
        kind::TENANT_KEYS => "tenant keys",
        kind::APPLICATION => KeptApplication::NOUN,
        kind::TOKEN => Token::NOUN,
        kind::FORMULA => Formula::NOUN,
        kind::COMPONENT => Component::NOUN,
        kind::REACTOR => Reactor::NOUN,
        kind::INVOCATION => Invocation::NOUN,
        kind::LOG => KeptEntry::NOUN,
        kind::SESSION => Session::NOUN,
        kind::ANSWER => KeptAnswer::NOUN,
        kind::JOB => Job::NOUN,
        kind::DELIVERY => Delivery::NOUN,
        kind::SIGNING_SECRETS => SigningSecrets::NOUN,
        kind::LAST_PLACE => LastPlace::NOUN,
        kind::RESEALING => Resealing::NOUN,
        kind::ERASED => ErasedTenant::NOUN,
        kind::BELIEVED_TIME => BelievedTime::NOUN,
        _ => "record",
    }
}

/// Opens records with the keys that the store keeps.
pub struct Look {
    root: RootKey,
    keys: HashMap<TenantId, Option<Arc<TenantKeys>>>,
    erased: HashMap<TenantId, bool>,
    everything: bool,
}

/// Gives records of a store.
type Find<'a> = &'a dyn Fn(Kind, TenantId, &str) -> Option<Record>;

impl Look {
    /// Looks into log entries only, for their places in chains.
    pub fn for_upgrade(root: RootKey) -> Self {
        let (keys, erased) = (HashMap::new(), HashMap::new());
        Self { root, keys, erased, everything: false }
    }

    /// Looks into everything.
    pub fn into_everything(root: RootKey) -> Self {
        Self { everything: true, ..Self::for_upgrade(root) }
    }

    fn keys(&mut self, tenant: TenantId, find: Find<'_>) -> Option<Arc<TenantKeys>> {
        let root = &self.root;
        // While root keys change, each opens one of the two.
        let open = || {
            [KEYS_ID, NEXT_ID].into_iter().find_map(|id| {
                let record = find(kind::TENANT_KEYS, tenant, id)?;
                open_tenant_keys(root, &record).ok().map(Arc::new)
            })
        };
        self.keys.entry(tenant).or_insert_with(open).clone()
    }

    /// Whether a tenant without keys is one whose keys were destroyed: the note on that says so, and is sealed itself.
    fn is_erased(&mut self, tenant: TenantId, find: Find<'_>) -> bool {
        if let Some(erased) = self.erased.get(&tenant) {
            return *erased;
        }
        let note = find(kind::ERASED, SYSTEM_TENANT, &tenant.to_string());
        let keys = self.keys(SYSTEM_TENANT, find);
        let erased =
            note.zip(keys).is_some_and(|(note, keys)| read::<ErasedTenant>(&note, &keys).is_ok());
        self.erased.insert(tenant, erased);
        erased
    }

    fn fault(&mut self, record: &Record, find: Find<'_>) -> Result<(), &'static str> {
        match record.kind {
            // By the next root key, and by one that may have been changed since.
            kind::SYSTEM if [ROTATION_NOTE_ID, OLD_KEYS_ID].contains(&record.id.as_str()) => {
                return Ok(());
            }
            kind::SYSTEM => {
                return open_system_keys(&self.root, record).map(drop).map_err(|_| UNOPENED);
            }
            kind::TENANT_KEYS => {
                return self.keys(record.tenant, find).map(drop).ok_or(UNOPENED);
            }
            _ => {}
        }
        let keys = self.keys(record.tenant, find).ok_or(NO_KEYS)?;
        match record.kind {
            kind::TENANT => check::<Tenant>(record, &keys),
            kind::APPLICATION => check::<KeptApplication>(record, &keys),
            kind::TOKEN => check_token(record, &keys),
            kind::FORMULA => check_named::<Formula>(record, &keys),
            kind::COMPONENT => check::<Component>(record, &keys),
            kind::REACTOR => check_named::<Reactor>(record, &keys),
            kind::INVOCATION => check::<Invocation>(record, &keys),
            kind::LOG => check_entry(record, &keys),
            kind::SESSION => check::<Session>(record, &keys),
            kind::ANSWER => check::<KeptAnswer>(record, &keys),
            kind::JOB => check_job(record, &keys),
            kind::DELIVERY => check::<Delivery>(record, &keys),
            kind::SIGNING_SECRETS => check::<SigningSecrets>(record, &keys),
            kind::LAST_PLACE => check::<LastPlace>(record, &keys),
            kind::RESEALING => check::<Resealing>(record, &keys),
            kind::ERASED => check::<ErasedTenant>(record, &keys),
            kind::BELIEVED_TIME => check::<BelievedTime>(record, &keys),
            _ => Err(UNKNOWN),
        }
    }
}

impl Examiner for Look {
    fn examine(&mut self, record: &Record, find: Find<'_>) -> Examined {
        let (tenant, keys_kind) = (record.tenant, record.kind == kind::TENANT_KEYS);
        let keyless = tenant != SYSTEM_TENANT && !keys_kind && self.keys(tenant, find).is_none();
        if self.everything && keyless && self.is_erased(tenant, find) {
            let chained = (record.kind == kind::LOG).then(|| text_digest(&[]));
            return Examined { chained, fault: None, erased: true };
        }
        let chained = (record.kind == kind::LOG).then(|| {
            let keys = self.keys(record.tenant, find);
            let text = keys.and_then(|keys| open(record, &keys).ok());
            // One that does not open has its place in the chain all the same.
            let unread = || TextDigest(digest(&[b"unread", &record.body]));
            text.map_or_else(unread, |text| text_digest(&text))
        });
        let fault = if self.everything { self.fault(record, find).err() } else { None };
        Examined { chained, fault, erased: false }
    }
}

fn open(record: &Record, keys: &TenantKeys) -> Result<crate::crypto::wiped::Wiped, &'static str> {
    let place = Place { kind: record.kind.0, tenant: record.tenant.0.as_bytes(), id: &record.id };
    seal::open_enveloped(|version| keys.opening_key(version), place, &record.body)
        .map_err(|_| UNOPENED)
}

fn read<E: Entity>(record: &Record, keys: &TenantKeys) -> Result<E, &'static str> {
    let entity = E::from_text(&open(record, keys)?).map_err(|_| UNOPENED)?;
    if entity.id() == record.id { Ok(entity) } else { Err(ANOTHER) }
}

fn check<E: Entity>(record: &Record, keys: &TenantKeys) -> Result<(), &'static str> {
    check_found_by(&read::<E>(record, keys)?, record, keys)
}

/// As [`check`], of what is found by its name too, but for a record of a time before names had pieces.
fn check_named<E: Named>(record: &Record, keys: &TenantKeys) -> Result<(), &'static str> {
    let entity = read::<E>(record, keys)?;
    in_any_form(|fold| {
        let new = || Index::folding(keys, fold);
        let (mut terms, numbers, uniques) = collected(&entity, new()).into_parts();
        if !has_pieces(record, keys) {
            let of_name = terms_of_name(&entity, new());
            terms.retain(|term| !of_name.contains(term));
        }
        check_parts((terms, numbers, uniques), record)
    })
}

/// As [`check`], but a job that an earlier version queued is not found by its reactor.
fn check_job(record: &Record, keys: &TenantKeys) -> Result<(), &'static str> {
    let job = read::<Job>(record, keys)?;
    let (mut terms, numbers, uniques) = collected(&job, Index::new(keys)).into_parts();
    let of_reactor = Job::term_of_reactor(keys, job.reactor_id);
    terms.retain(|term| *term != of_reactor || record.terms.contains(term));
    check_parts((terms, numbers, uniques), record)
}

/// As [`check`], but an entry that an earlier version wrote is not found by who acted.
fn check_entry(record: &Record, keys: &TenantKeys) -> Result<(), &'static str> {
    let entry = read::<KeptEntry>(record, keys)?;
    let (mut terms, numbers, uniques) = collected(&entry, Index::new(keys)).into_parts();
    let of_actor = entry.term_of_actor(keys);
    terms.retain(|term| Some(*term) != of_actor || record.terms.contains(term));
    check_parts((terms, numbers, uniques), record)
}

/// What its search indexes gave is not kept in a token: they are evaluated again. Those of earlier versions may draw at random
/// or tell the time, and give nothing here; such a token must be found by all the rest, and by not more terms than it has
/// indexes.
fn check_token(record: &Record, keys: &TenantKeys) -> Result<(), &'static str> {
    let mut token = read::<Token>(record, keys)?;
    let rests = FOLDS.map(|fold| collected(&token, Index::folding(keys, fold)).into_parts().0);
    token.index_anew();
    let most = token.about.search_indexes.iter().flatten().count();
    if token.indexed.len() == most {
        return check_found_by(&token, record, keys);
    }
    let is_found = |rest: &Vec<Term>| {
        let others = record.terms.iter().filter(|term| !rest.contains(term)).count();
        others <= most && rest.iter().all(|term| record.terms.contains(term))
    };
    if rests.iter().any(is_found) { Ok(()) } else { Err(NOT_FOUND_BY) }
}

fn check_found_by<E: Entity>(
    entity: &E,
    record: &Record,
    keys: &TenantKeys,
) -> Result<(), &'static str> {
    in_any_form(|fold| {
        check_parts(collected(entity, Index::folding(keys, fold)).into_parts(), record)
    })
}

/// A record is found by its texts as they are folded now, or as they were when it was stored.
fn in_any_form(check: impl Fn(Fold) -> Result<(), &'static str>) -> Result<(), &'static str> {
    if FOLDS.into_iter().any(|fold| check(fold).is_ok()) { Ok(()) } else { Err(NOT_FOUND_BY) }
}

fn check_parts(
    (mut terms, mut numbers, mut uniques): FoundBy,
    record: &Record,
) -> Result<(), &'static str> {
    let mut found = (record.terms.clone(), record.numbers.clone(), record.uniques.clone());
    for terms in [&mut terms, &mut found.0] {
        terms.sort_unstable();
    }
    for numbers in [&mut numbers, &mut found.1] {
        numbers.sort_unstable();
    }
    for uniques in [&mut uniques, &mut found.2] {
        uniques.sort_unstable();
    }
    if found == (terms, numbers, uniques) { Ok(()) } else { Err(NOT_FOUND_BY) }
}

#[cfg(test)]
mod tests {
    use super::{NOT_FOUND_BY, check_entry, kind};
    use crate::model::permission::marker::TenantRead;
    use crate::store::{Filter, Record, Start};
    use crate::vault::index::{term, term_of};
    use crate::vault::tests::vault;

    /// As earlier versions wrote them.
    #[tokio::test]
    async fn an_entry_that_is_not_found_by_who_acted_is_sound() {
        let folder = tempfile::tempdir().unwrap();
        let vault = vault(folder.path(), 1 << 20).await;
        let made = vault.create_tenant("t", None).await.unwrap();
        let manager = vault.authenticate(Some(made.management_key)).await.unwrap();
        let permit = vault.permit::<TenantRead>(&manager, None).await.unwrap();
        vault.find_own_tenant(&permit).await.unwrap();
        let (tenant, keys) = (made.tenant.id, vault.keys(made.tenant.id).await.unwrap());
        let actor = term_of(&keys, term::ACTOR, &[&permit.actor_id().to_string()]);
        let (by, start) = (Filter::Term(actor), Start::Offset(0));
        let slice = vault.0.store.page(kind::LOG, tenant, &by, start, 9).await.unwrap();
        let [entry] = slice.records.as_slice() else { panic!("{}", slice.total) };
        assert_eq!(check_entry(entry, &keys), Ok(()));
        let without = |left_out| -> Record {
            let mut entry = entry.clone();
            entry.terms.retain(|term| *term != left_out);
            entry
        };
        assert_eq!(check_entry(&without(actor), &keys), Ok(()));
        let entity = term_of(&keys, term::ENTITY_ID, &[&tenant.to_string()]);
        assert_eq!(check_entry(&without(entity), &keys), Err(NOT_FOUND_BY));
        let mut other = entry.clone();
        other.terms.push(entity);
        assert_eq!(check_entry(&other, &keys), Err(NOT_FOUND_BY));
    }
}
