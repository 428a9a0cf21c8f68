use uuid::Uuid;

use super::{
    NoRoom, Ordering, Share, Shares, TenantId, let_go_of_all_but, opened, opened_so_far, share_in,
    sharing,
};

fn share(shares: &Shares, tenant: u128, bytes: usize) -> Share {
    let mut share = shares.share(TenantId(Uuid::from_u128(tenant)));
    share.grow_to(bytes).unwrap();
    share
}

#[test]
fn a_tenant_has_half_of_the_room_and_all_have_the_whole_of_it() {
    let shares = Shares::new(100, 0);
    let mut first = share(&shares, 1, 30);
    // What it has already is counted once.
    first.grow_to(40).unwrap();
    first.grow_to(10).unwrap();
    let mut second = share(&shares, 1, 10);
    assert_eq!(second.grow_to(11), Err(NoRoom::OfTenant));
    // What was refused is not counted, and what is held stays so.
    let other = share(&shares, 2, 50);
    let mut third = share(&shares, 3, 0);
    assert_eq!(third.grow_to(1), Err(NoRoom::OfAll));
    first.shrink_to(20);
    first.shrink_to(30);
    third.grow_to(20).unwrap();
    assert_eq!(third.grow_to(21), Err(NoRoom::OfAll));
    drop(first);
    third.grow_to(40).unwrap();
    assert_eq!(third.grow_to(usize::MAX), Err(NoRoom::OfTenant));
    drop((second, other, third));
    let held = shares.0.held.lock();
    assert!(held.bytes == 0 && held.by_tenant.is_empty());
}

#[test]
fn what_is_done_counts_beyond_the_bound_and_its_tenant_alone_waits() {
    let shares = Shares::new(100, 0);
    let check = |tenant| shares.share(TenantId(Uuid::from_u128(tenant))).check();
    let mut first = share(&shares, 1, 50);
    assert_eq!(check(1), Ok(()));
    // What is read is not: it is done with before long, and others of the tenant are refused as they read.
    first.hold(51);
    assert_eq!(check(1), Ok(()));
    first.answer(51);
    assert_eq!((check(1), check(2)), (Err(NoRoom::OfTenant), Ok(())));
    // However much it is, others have what is theirs.
    first.answer(1_000);
    let mut second = share(&shares, 2, 50);
    assert_eq!(check(2), Ok(()));
    assert_eq!(shares.share(TenantId(Uuid::from_u128(3))).grow_to(1), Err(NoRoom::OfAll));
    second.answer(60);
    assert_eq!((check(1), check(2)), (Err(NoRoom::OfTenant), Err(NoRoom::OfTenant)));
    first.hold(10);
    assert_eq!(share(&shares, 3, 40).bytes, 40);
    assert_eq!((check(1), check(2), check(3)), (Ok(()), Err(NoRoom::OfTenant), Ok(())));
    drop((first, second));
    assert!(shares.0.held.lock().by_tenant.is_empty());
    assert_eq!(shares.0.bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn the_first_of_each_share_does_not_count() {
    let shares = Shares::new(100, 10);
    let held = || shares.0.held.lock().bytes;
    let mut some: Vec<Share> = (0..20).map(|_| share(&shares, 1, 10)).collect();
    assert_eq!(held(), 0);
    some[0].grow_by(5).unwrap();
    assert_eq!(held(), 5);
    some[0].grow_by(45).unwrap();
    assert_eq!(some[0].grow_by(1), Err(NoRoom::OfTenant));
    assert_eq!((some[0].bytes, held()), (60, 50));
    some[0].shrink_to(10);
    assert_eq!(held(), 0);
    some[1].hold(70);
    assert_eq!(some[0].grow_to(11), Err(NoRoom::OfTenant));
    drop(some);
    assert_eq!(held(), 0);
}

#[tokio::test]
async fn beside_one_thing_that_is_too_large_there_is_room_for_little_more() {
    let shares = Shares::new(1_000, 10);
    let share = shares.share(TenantId(Uuid::from_u128(1)));
    let run = async {
        opened(5_000).unwrap();
        opened(10).unwrap();
        assert_eq!((opened(11), opened(5_000)), (Err(NoRoom::OfTenant), Err(NoRoom::OfTenant)));
        let before = opened_so_far();
        opened(10).unwrap();
        let_go_of_all_but(before);
        opened_so_far()
    };
    assert_eq!(sharing(Some(share), run).await.0, 5_010);
    assert_eq!(opened_so_far(), 0);
}

#[tokio::test]
async fn what_is_opened_counts_until_that_is_over_for_which_it_was() {
    let shares = Shares::new(1_000, 0);
    let other = share(&shares, 1, 100);
    let run = async {
        // Not yet anybody's.
        opened(200).unwrap();
        share_in(share(&shares, 1, 0));
        opened(200).unwrap();
        opened(200).unwrap();
        assert_eq!(opened(1), Err(NoRoom::OfTenant));
        // What goes on within it may have a share of its own.
        let (inner, own) = sharing(Some(share(&shares, 2, 0)), async { opened(200) }).await;
        assert_eq!((inner, own.map(|own| own.bytes)), (Ok(()), Some(200)));
        let_go_of_all_but(100);
        opened(200)
    };
    let (last, own) = sharing(None, run).await;
    assert_eq!((last, own.map(|share| share.bytes)), (Ok(()), Some(300)));
    assert_eq!(shares.0.held.lock().bytes, 100);
    // Of a tenant that has nothing else there is room for anything, but not beside it.
    let nothing_else = async || {
        let run = async { (opened(50).and(opened(5_000)), opened(1)) };
        sharing(Some(shares.share(TenantId(Uuid::from_u128(3)))), run).await
    };
    let (large, own) = nothing_else().await;
    // It is one thing, and not many.
    assert_eq!(large, (Ok(()), Err(NoRoom::OfTenant)));
    assert_eq!(shares.0.held.lock().bytes, 600);
    assert_eq!(nothing_else().await.0.0, Err(NoRoom::OfTenant));
    drop((own, other));
    // And without anybody's share it is not counted.
    opened(5_000).unwrap();
    assert_eq!(shares.0.held.lock().bytes, 0);
}
