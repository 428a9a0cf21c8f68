//! `kill -9` at random moments of mixed load, and of compacting.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::Row;
use crate::binary::Process;
use crate::fates::{Fates, Moment};
use crate::load::{Load, Tell};
use crate::options::Dice;
use crate::receiver::{Told, receiver};
use crate::site::{Site, compact, serving, verify};

const CLIENTS: u64 = 8;
/// Kills of one store: to look through it takes as long as it is large.
const KILLS_OF_A_STORE: usize = 50;
/// What is lost stays lost: no id is used twice, and nobody changes what another process was asked for.
const LOOK_AT_ALL_EVERY: usize = 10;
/// The store is compacted in one of so many servers.
const COMPACTED_ONE_OF: usize = 4;

/// Kills servers so many times.
pub async fn run(kills: usize, seed: u64) -> Row {
    let mut row = Row::new("kill -9");
    let mut dice = Dice(seed);
    while row.times < kills && row.unopened.is_empty() {
        let wanted = (kills - row.times).min(KILLS_OF_A_STORE);
        of_one_store(wanted, &mut dice, &mut row).await;
    }
    row
}

/// Kills servers of one store. `verify` looks at it after each; every tenth time, and at the end, everything is checked.
async fn of_one_store(kills: usize, dice: &mut Dice, row: &mut Row) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let process = Process::start(serving(folder));
    let site = Site::set_up(&process).await;
    process.kill();
    let (callback, told) = receiver().await;
    let fates = Arc::new(Mutex::new(Fates::default()));
    let learn = Arc::clone(&fates);
    let tell: Tell = Arc::new(move |moment: Moment<'_>| learn.lock().learn(&moment.line()));
    let stop = Arc::new(AtomicBool::new(false));
    let load = Load { site, tell, stop, callback, next: Arc::new(AtomicU64::new(0)) };
    for number in 1..=kills {
        if kill(folder, &load, dice).await.is_none() {
            row.unopened.push(format!("after {} kills", row.times));
            break;
        }
        row.times += 1;
        row.damaged.extend(verify(folder).err());
        if number.is_multiple_of(LOOK_AT_ALL_EVERY) || number == kills {
            let known = fates.lock().clone();
            let told = (number == kills).then_some(&told);
            row.lost.extend(lost(folder, &load.site, &known, told).await);
            row.damaged.extend(verify(folder).err());
            let (all, runs) = (row.acknowledged + known.acknowledged(), known.jobs.len());
            println!("{} kills, {all} acknowledged, {runs} runs of this store", row.times);
        }
    }
    row.acknowledged += fates.lock().acknowledged();
}

/// Loads a server until it is killed. `None` if it did not start.
async fn kill(folder: &Path, load: &Load, dice: &mut Dice) -> Option<()> {
    let process = Process::try_start(serving(folder))?;
    let load = Load { stop: Arc::new(AtomicBool::new(false)), ..load.clone() };
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (load, dice) = (load.clone(), Dice(dice.throw()));
            tokio::spawn(load.clone().run(load.site.client(&process), dice))
        })
        .collect();
    let compacting = (dice.below(COMPACTED_ONE_OF) == 0).then(|| {
        let folder = folder.to_owned();
        // It may end with the server.
        tokio::task::spawn_blocking(move || drop(compact(&folder)))
    });
    tokio::time::sleep(Duration::from_millis(50 + dice.throw() % 700)).await;
    process.kill();
    load.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    if let Some(compacting) = compacting {
        compacting.await.unwrap();
    }
    Some(())
}

/// What a server finds lost; with `told`, also of the runs, once they had the time to end.
async fn lost(folder: &Path, site: &Site, known: &Fates, told: Option<&Told>) -> Vec<String> {
    let process = Process::start(serving(folder));
    let mut lost = site.lost(&process, known).await;
    if let Some(told) = told {
        lost.extend(site.unfinished(&process, &known.jobs, told, false).await);
    }
    process.kill();
    lost
}
