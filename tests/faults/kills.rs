//! `kill -9` at random moments of mixed load.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::net::TcpListener;

use crate::Row;
use crate::binary::Process;
use crate::fates::{Fates, Moment};
use crate::load::{Load, Tell};
use crate::options::Dice;
use crate::site::{Site, serving, verify};

const CLIENTS: u64 = 8;
/// How often it is looked for what is still to be told at the end, and how long between: five minutes in all.
const LOOKS: u32 = 3_000;
const LOOK_EVERY: Duration = Duration::from_millis(100);

type Told = Arc<Mutex<BTreeSet<String>>>;

async fn receive(State(told): State<Told>, headers: HeaderMap) -> StatusCode {
    told.lock().insert(headers["webhook-id"].to_str().unwrap().to_owned());
    StatusCode::NO_CONTENT
}

/// Somebody who takes every webhook; where it listens, and what came.
pub async fn receiver() -> (String, Told) {
    let told = Told::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let router = Router::new().fallback(receive).with_state(Arc::clone(&told));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, told)
}

/// Kills a server so many times. Every other time `verify` looks at what is left before the next server does; every tenth
/// time, and at the end, everything is checked.
pub async fn run(kills: usize, seed: u64) -> Row {
    let folder = tempfile::tempdir().unwrap();
    let mut row = Row::new("kill -9");
    let mut dice = Dice(seed);
    let process = Process::start(serving(folder.path()));
    let site = Site::set_up(&process).await;
    process.kill();
    let (callback, told) = receiver().await;
    let fates = Arc::new(Mutex::new(Fates::default()));
    let next = Arc::new(AtomicU64::new(0));
    for number in 1..=kills {
        let Some(process) = Process::try_start(serving(folder.path())) else {
            row.unopened.push(format!("after {} kills", number - 1));
            break;
        };
        let learn = Arc::clone(&fates);
        let tell: Tell = Arc::new(move |moment: Moment<'_>| learn.lock().learn(&moment.line()));
        let load = Load {
            site: site.clone(),
            tell,
            stop: Arc::new(AtomicBool::new(false)),
            callback: callback.clone(),
            next: Arc::clone(&next),
        };
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (load, dice) = (load.clone(), Dice(dice.throw()));
                tokio::spawn(load.run(site.client(&process), dice))
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(50 + dice.throw() % 700)).await;
        process.kill();
        load.stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.unwrap();
        }
        row.times += 1;
        if number.is_multiple_of(2) {
            row.damaged.extend(verify(folder.path()).err());
        }
        if number.is_multiple_of(10) || number == kills {
            let process = Process::start(serving(folder.path()));
            let known = fates.lock().clone();
            row.lost.extend(site.lost(&process, &known).await);
            if number == kills {
                row.lost.extend(untold(&known, &told).await);
            }
            process.kill();
            row.damaged.extend(verify(folder.path()).err());
            let (all, runs) = (known.acknowledged(), known.jobs.len());
            println!("{number} kills, {all} acknowledged, {runs} of them runs");
        }
    }
    row.acknowledged = fates.lock().acknowledged();
    row
}

/// Accepted runs that nobody was told of.
async fn untold(known: &Fates, told: &Told) -> Vec<String> {
    let mut missing = Vec::new();
    for _ in 0..LOOKS {
        missing = known.jobs.difference(&told.lock()).cloned().collect();
        if missing.is_empty() {
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    missing.into_iter().map(|id| format!("{id} was never told")).collect()
}
