//! Simulated power cuts: what a disk may have made of the writes that were not synced.
//!
//! A server under load is recorded. Then, for moments of it, the files are made as a disk could have left them: what an
//! ended sync covers is there, of the rest nothing (`dropped`), some pages (`reordered`), all but a torn end (`torn`), or
//! everything but one page (`late`). A server is started on them, and has to open and hold all that was acknowledged.
//!
//! Names (files made, renamed, removed) are taken to be as they were: the model has no disk that forgets those.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::Row;
use crate::binary::Process;
use crate::fates::{Fates, Moment};
use crate::kills::receiver;
use crate::load::{Load, Tell};
use crate::options::Dice;
use crate::site::{Site, serving, verify};
use crate::trace::{Notes, Step, Trace, recorder};

const CLIENTS: u64 = 8;
const RECORDED: Duration = Duration::from_secs(4);
const PAGE: usize = 4_096;
const SECTOR: usize = 512;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dropped,
    Reordered,
    Torn,
    Late,
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::Dropped, "power cut, unsynced writes dropped"),
    (Kind::Reordered, "power cut, unsynced pages at random"),
    (Kind::Torn, "power cut, last write torn"),
    (Kind::Late, "power cut, one unsynced page lost"),
];

/// So many cuts of each kind.
pub async fn run(cuts: usize, seed: u64) -> Vec<Row> {
    let work = tempfile::tempdir().unwrap();
    let recorded = work.path().join("recorded");
    let (site, first) = record(work.path(), &recorded, seed).await;
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
            check(&trace, cut, (&site, &folder), &mut row).await;
            if (number + 1).is_multiple_of(50) {
                println!("{name}: {}", number + 1);
            }
        }
        rows.push(row);
    }
    rows
}

/// Records a server under load in the trace; gives what was set up and the step at which the load began.
async fn record(work: &Path, folder: &Path, seed: u64) -> (Site, usize) {
    let trace = work.join("trace");
    let mut serve = serving(folder);
    serve.env("LD_PRELOAD", recorder(work));
    serve.env("PCUT_DIR", folder.join("store")).env("PCUT_TRACE", &trace);
    let process = Process::start(serve);
    let site = Site::set_up(&process).await;
    let first = Trace::read(&trace).steps.len();
    let notes = Arc::new(Notes::to(&trace));
    let tell: Tell = Arc::new(move |moment: Moment<'_>| notes.add(&moment.line()));
    let (callback, _) = receiver().await;
    let stop = Arc::new(AtomicBool::new(false));
    let next = Arc::new(AtomicU64::new(0));
    let load = Load { site: site.clone(), tell, stop: Arc::clone(&stop), callback, next };
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let client = site.client(&process);
            tokio::spawn(load.clone().run(client, Dice(seed.wrapping_add(number))))
        })
        .collect();
    tokio::time::sleep(RECORDED).await;
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    process.kill();
    (site, first)
}

/// Makes the files as a disk could have left them when the power went before step `cut`.
fn restore(trace: &Trace, cut: usize, (kind, dice): (Kind, &mut Dice), (from, to): (&Path, &Path)) {
    let durable = trace.durable(cut);
    let unsynced = |number: usize, inode: &u64| number >= durable.get(inode).copied().unwrap_or(0);
    let is_unsynced = |(number, step): &(usize, &Step)| match step {
        Step::Write { inode, through, .. } => !through && unsynced(*number, inode),
        _ => false,
    };
    let last =
        trace.steps[..cut].iter().enumerate().filter(is_unsynced).map(|(n, _)| n).next_back();
    let mut files: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut names: BTreeMap<PathBuf, u64> = BTreeMap::new();
    let mut folders = vec![from.join("store")];
    for (number, step) in trace.steps[..cut].iter().enumerate() {
        match step {
            Step::Create { path, inode } => {
                names.insert(path.clone(), *inode);
                files.entry(*inode).or_default();
            }
            Step::Truncate { inode, len } => files.entry(*inode).or_default().resize(*len, 0),
            Step::Rename { from, to } => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                } else {
                    move_below(&mut names, from, to);
                }
            }
            Step::Unlink { path } => {
                names.remove(path);
            }
            Step::Mkdir { path } => folders.push(path.clone()),
            Step::Write { inode, at, data, through } => {
                let data = trace.data(data);
                let file = files.entry(*inode).or_default();
                if *through || !unsynced(number, inode) {
                    put(file, *at, data);
                    continue;
                }
                let is_last = last == Some(number);
                let lost = dice.below(data.len().div_ceil(PAGE));
                match kind {
                    Kind::Dropped => {}
                    Kind::Torn if is_last => {
                        let sectors = data.len() / SECTOR;
                        put(file, *at, &data[..dice.below(sectors + 1) * SECTOR]);
                    }
                    Kind::Torn => put(file, *at, data),
                    Kind::Reordered | Kind::Late => {
                        for (page, bytes) in data.chunks(PAGE).enumerate() {
                            let kept = match kind {
                                Kind::Late => !(is_last && page == lost),
                                _ => dice.below(2) == 0,
                            };
                            if kept {
                                put(file, *at + page * PAGE, bytes);
                            }
                        }
                    }
                }
            }
            Step::SyncBegins { .. } | Step::SyncEnded { .. } | Step::Note { .. } => {}
        }
    }
    let place = |path: &Path| to.join(path.strip_prefix(from).unwrap());
    for folder in folders {
        fs::create_dir_all(place(&folder)).unwrap();
    }
    for (path, inode) in names {
        let path = place(&path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &files[&inode]).unwrap();
    }
}

/// A folder that was renamed takes its files along.
fn move_below(names: &mut BTreeMap<PathBuf, u64>, from: &Path, to: &Path) {
    let below: Vec<PathBuf> = names.keys().filter(|path| path.starts_with(from)).cloned().collect();
    for path in below {
        if let Some(inode) = names.remove(&path) {
            names.insert(to.join(path.strip_prefix(from).unwrap()), inode);
        }
    }
}

fn put(file: &mut Vec<u8>, at: usize, data: &[u8]) {
    if file.len() < at + data.len() {
        file.resize(at + data.len(), 0);
    }
    file[at..at + data.len()].copy_from_slice(data);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

async fn check(trace: &Trace, cut: usize, (site, folder): (&Site, &Path), row: &mut Row) {
    let mut fates = Fates::default();
    for step in &trace.steps[..cut] {
        if let Step::Note { line } = step {
            fates.learn(trace.line(line));
        }
    }
    row.times += 1;
    row.acknowledged += fates.acknowledged();
    let Some(process) = Process::try_start(serving(folder)) else {
        row.unopened.push(format!("cut before step {cut}"));
        return;
    };
    let lost = site.lost(&process, &fates).await;
    row.lost.extend(lost.into_iter().map(|lost| format!("cut before step {cut}: {lost}")));
    process.kill();
    row.damaged.extend(verify(folder).err());
}
