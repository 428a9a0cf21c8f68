use std::future::ready;
use std::sync::Arc;

use super::{Asked, ENTRY_BYTES, Kept, Programs, Why, official, sha256_hex};
use crate::limits::UPLOADS_PER_TENANT_MAX;
use crate::model::id::TenantId;
use crate::runtime::ComponentError;
use crate::vault::Error;
use crate::vault::tests::vault;
use uuid::Uuid;

const A: Option<TenantId> = Some(TenantId(Uuid::from_u128(1)));
const B: Option<TenantId> = Some(TenantId(Uuid::from_u128(2)));

fn upload(digest: &str) -> Asked<'_> {
    Asked::to_check(digest, A.unwrap())
}

#[tokio::test]
async fn nothing_is_compiled_under_a_digest_that_is_not_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let vault = vault(folder.path(), 1 << 30).await;
    let [one, other, ..] = &official::all().collect::<Vec<_>>()[..] else { panic!() };
    let asked = || Asked::to_run(&one.formula);
    let given = |bytes: &'static [u8]| move || ready(Ok(bytes.to_vec()));
    for wrong in [other.component, &one.component[..100], b""] {
        let refused = vault.program(asked(), given(wrong)).await;
        assert!(matches!(refused, Err(Error::Replaced)));
    }
    assert!(vault.program_at_hand(&one.formula).is_none());
    let program = vault.program(asked(), given(one.component)).await.unwrap();
    // From now on it is at hand: nobody asks for the component.
    let unasked = || async { panic!("the component was read") };
    vault.program(asked(), unasked).await.unwrap();
    vault.program_at_hand(&one.formula).unwrap().unwrap();
    // Counted by its code, which is no smaller than what it was made of.
    let kept = vault.0.programs.kept.lock();
    let entry = &kept.by_digest[&one.formula.component_digest];
    assert_eq!(entry.bytes, ENTRY_BYTES + program.memory_bytes());
    assert!(program.memory_bytes() > one.component.len() as u64 / 2);
}

#[tokio::test]
async fn what_is_refused_takes_no_room() {
    let folder = tempfile::tempdir().unwrap();
    let vault = vault(folder.path(), 1 << 30).await;
    let wrong = b"no component";
    let digest = sha256_hex(wrong);
    for _ in 0..2 {
        let refused = vault.program(upload(&digest), || ready(Ok(wrong.to_vec()))).await;
        assert!(matches!(refused, Err(Error::NotRunnable(ComponentError::NotWebAssembly))));
        assert!(vault.0.programs.kept.lock().by_digest.is_empty());
    }
    // A slot that another one replaced is not that one's end.
    let slot = || vault.0.programs.slot("a", A);
    let old = slot();
    vault.0.programs.forget("a", &old);
    let new = slot();
    vault.0.programs.forget("a", &old);
    assert!(Arc::ptr_eq(&new, &slot()));
}

#[tokio::test]
async fn a_program_of_more_code_than_a_tenant_may_have_is_refused_but_not_ours() {
    let folder = tempfile::tempdir().unwrap();
    let vault = vault(folder.path(), 4 * ENTRY_BYTES).await;
    let official = official::all().next().unwrap();
    let digest = &official.formula.component_digest;
    let bytes = || ready(Ok(official.component.to_vec()));
    let refused = vault.program(upload(digest), bytes).await;
    assert!(matches!(refused, Err(Error::NotRunnable(ComponentError::CodeTooLarge))));
    assert!(vault.0.programs.kept.lock().by_digest.is_empty());
    // The tenant's runs of it are refused without another try, and even without its bytes.
    let unasked = || async { panic!("the component was read") };
    let refused = vault.program(Asked { why: Why::Run, ..upload(digest) }, unasked).await;
    assert!(matches!(refused, Err(Error::NotRunnable(ComponentError::CodeTooLarge))));
    vault.program(Asked::to_run(&official.formula), bytes).await.unwrap();
    // It is there, and takes no more room, whoever asks.
    vault.program(upload(digest), bytes).await.unwrap();
}

#[tokio::test]
async fn an_upload_past_its_places_is_refused_before_it_waits_and_a_run_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let vault = vault(folder.path(), 1 << 30).await;
    let official = official::all().next().unwrap();
    let digest = &official.formula.component_digest;
    let owner = A.unwrap().0.as_u128();
    let mut places: Vec<_> =
        (0..UPLOADS_PER_TENANT_MAX).map(|_| vault.place(owner).unwrap()).collect();
    let unasked = || async { panic!("the component was read") };
    let refused = vault.program(upload(digest), unasked).await.unwrap_err().describe();
    assert_eq!((refused.status, refused.title), (429, "Too Many Requests"));
    assert!(vault.0.programs.kept.lock().by_digest.is_empty());
    let bytes = || ready(Ok(official.component.to_vec()));
    vault.program(Asked { why: Why::Run, ..upload(digest) }, bytes).await.unwrap();
    // What is known needs no place, and one that is free again may be taken.
    vault.program(upload(digest), unasked).await.unwrap();
    places.pop();
    let other = b"no component";
    let refused = vault.program(upload(&sha256_hex(other)), || ready(Ok(other.to_vec()))).await;
    assert!(matches!(refused, Err(Error::NotRunnable(_))));
    assert!(vault.place(owner).is_ok());
}

/// Programs of which so many fit that weigh as much as one that is not there yet.
fn programs(count: u64) -> Programs {
    Programs::new(count * ENTRY_BYTES)
}

fn digests(programs: &Programs) -> Vec<String> {
    let mut digests: Vec<_> = programs.kept.lock().by_digest.keys().cloned().collect();
    digests.sort();
    digests
}

/// As [`Programs::weigh`] does, with a weight of our own.
fn weigh(programs: &Programs, digest: &str, entries: u64) {
    let kept: &mut Kept = &mut programs.kept.lock();
    kept.by_digest.get_mut(digest).unwrap().bytes = entries * ENTRY_BYTES;
    kept.make_room(digest, programs.bytes_max);
}

#[test]
fn the_longest_unused_program_of_a_tenant_makes_room() {
    let programs = programs(8);
    for digest in ["a1", "a2", "a3", "a4"] {
        programs.slot(digest, A);
    }
    let first = programs.slot("a1", A);
    assert!(programs.at_hand("a3").is_none(), "a use, although it is not there yet");
    programs.slot("a5", A);
    assert_eq!(digests(&programs), ["a1", "a3", "a4", "a5"]);
    assert!(Arc::ptr_eq(&first, &programs.slot("a1", A)));
    // By weight, not by count.
    weigh(&programs, "a5", 3);
    assert_eq!(digests(&programs), ["a1", "a5"]);
    weigh(&programs, "a1", 9);
    assert_eq!(digests(&programs), ["a1"]);
}

#[test]
fn a_tenant_shoves_out_nobody_elses_while_it_has_half() {
    let programs = programs(8);
    for digest in ["b1", "b2", "b3", "b4"] {
        programs.slot(digest, B);
    }
    for number in 0..100 {
        programs.slot(&format!("a{number:03}"), A);
    }
    let expected = ["a096", "a097", "a098", "a099", "b1", "b2", "b3", "b4"];
    assert_eq!(digests(&programs), expected);
    // A third one's come at the cost of whatever is used least.
    programs.slot("c", Some(TenantId(Uuid::from_u128(3))));
    assert_eq!(digests(&programs), ["a096", "a097", "a098", "a099", "b2", "b3", "b4", "c"]);
}

#[test]
fn what_ships_with_the_product_stays_and_does_not_count() {
    let programs = programs(4);
    programs.slot("ours", None);
    weigh(&programs, "ours", 1_000);
    programs.slot("same", A);
    // It was a tenant's first, and is nobody's from now on.
    programs.slot("same", None);
    programs.slot("same", A);
    for number in 0..10 {
        programs.slot(&format!("a{number}"), A);
        programs.slot(&format!("b{number}"), B);
    }
    assert_eq!(digests(&programs), ["a8", "a9", "b8", "b9", "ours", "same"]);
}
