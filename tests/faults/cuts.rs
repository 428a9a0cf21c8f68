//! Simulated power cuts: what a disk may have made of the writes that were not synced.
//!
//! A server under load is recorded. Then, for moments of it, the files are made as a disk could have left them: what an
//! ended sync covers is there, of the rest nothing (`dropped`), some pages (`reordered`), all but a torn end (`torn`), or
//! everything but one page (`late`). A server is started on them, and has to open and hold all that was acknowledged.
//!
//! In these, names (files made, renamed, removed) are as they were. One kind forgets names too (`names`): of each folder what
//! was done since it was last synced, from some moment on; and all writes that were not synced.
//!
//! The store is compacted meanwhile, so that files of its own take the place of others.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::Row;
use crate::binary::Process;
use crate::disk::{Kind, restore};
use crate::fates::{Fates, Moment};
use crate::load::{Load, Tell};
use crate::options::Dice;
use crate::receiver::{Told, receiver};
use crate::site::{Site, compact, serving, verify};
use crate::trace::{Notes, Step, Trace, recorder};

const CLIENTS: u64 = 8;
const RECORDED: Duration = Duration::from_secs(4);
const COMPACTIONS: u32 = 3;

const KINDS: [(Kind, &str); 5] = [
    (Kind::Dropped, "power cut, unsynced writes dropped"),
    (Kind::Reordered, "power cut, unsynced pages at random"),
    (Kind::Torn, "power cut, last write torn"),
    (Kind::Late, "power cut, one unsynced page lost"),
    (Kind::Names, "power cut, unsynced names forgotten"),
];

/// So many cuts of each kind.
pub async fn run(cuts: usize, seed: u64) -> Vec<Row> {
    let work = tempfile::tempdir().unwrap();
    let recorded = work.path().join("recorded");
    let (callback, told) = receiver().await;
    let (site, first) = record(work.path(), &recorded, (callback, seed)).await;
    let trace = Trace::read(&work.path().join("trace"));
    println!("recorded {} steps, {} of them before the load", trace.steps.len(), first);
    let mut dice = Dice(seed ^ 0xc075);
    let mut rows = Vec::new();
    for (kind, name) in KINDS {
        let mut row = Row::new(name);
        for number in 0..cuts {
            let cut = first + dice.below(trace.steps.len() - first);
            let folder = work.path().join("cut");
            let _ = fs::remove_dir_all(&folder);
            restore(&trace, cut, (kind, &mut dice), (&recorded, &folder));
            // What was compiled has nothing to do with it, and takes long to be made again.
            copy(&recorded.join("compiled"), &folder.join("compiled"));
            check((&trace, cut), (&site, &folder, &told), &mut row).await;
            if (number + 1).is_multiple_of(50) {
                println!("{name}: {}", number + 1);
            }
        }
        rows.push(row);
    }
    rows
}

/// Records a server under load in the trace; gives what was set up and the step at which the load began.
async fn record(work: &Path, folder: &Path, (callback, seed): (String, u64)) -> (Site, usize) {
    let trace = work.join("trace");
    let mut serve = serving(folder);
    serve.env("LD_PRELOAD", recorder(work));
    serve.env("PCUT_DIR", folder.join("store")).env("PCUT_TRACE", &trace);
    let process = Process::start(serve);
    let site = Site::set_up(&process).await;
    let first = Trace::read(&trace).steps.len();
    let notes = Arc::new(Notes::to(&trace));
    let tell: Tell = Arc::new(move |moment: Moment<'_>| notes.add(&moment.line()));
    let stop = Arc::new(AtomicBool::new(false));
    let next = Arc::new(AtomicU64::new(0));
    let load = Load { site: site.clone(), tell, stop: Arc::clone(&stop), callback, next };
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let client = site.client(&process);
            tokio::spawn(load.clone().run(client, Dice(seed.wrapping_add(number))))
        })
        .collect();
    for _ in 0..COMPACTIONS {
        tokio::time::sleep(RECORDED / (COMPACTIONS + 1)).await;
        let folder = folder.to_owned();
        tokio::task::spawn_blocking(move || compact(&folder)).await.unwrap().unwrap();
    }
    tokio::time::sleep(RECORDED / (COMPACTIONS + 1)).await;
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    process.kill();
    let is_mark =
        |step: &Step| matches!(step, Step::Create { path, .. } if path.ends_with("whole"));
    let compactions = Trace::read(&trace).steps.iter().filter(|step| is_mark(step)).count();
    assert_eq!(compactions, COMPACTIONS as usize, "compactions that were recorded");
    (site, first)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Starts a server on what a cut left, and looks for all that was acknowledged before it.
async fn check(
    (trace, cut): (&Trace, usize),
    (site, folder, told): (&Site, &Path, &Told),
    row: &mut Row,
) {
    let mut fates = Fates::default();
    for step in &trace.steps[..cut] {
        if let Step::Note { line } = step {
            fates.learn(trace.line(line));
        }
    }
    row.times += 1;
    row.acknowledged += fates.acknowledged();
    // What was told before does not count: the server that starts now has to tell it, or to know that it was told.
    told.lock().clear();
    let Some(process) = Process::try_start(serving(folder)) else {
        row.unopened.push(format!("cut before step {cut}"));
        return;
    };
    let mut lost = site.lost(&process, &fates).await;
    lost.extend(site.unfinished(&process, &fates.jobs, told, true).await);
    row.lost.extend(lost.into_iter().map(|lost| format!("cut before step {cut}: {lost}")));
    process.kill();
    row.damaged.extend(verify(folder).err());
}
