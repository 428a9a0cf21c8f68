//! What computes for long: on a server it stands back for everything else on the machine, for an author it does not.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::support::binary::{Process, command, eventually};

/// How the system schedules the threads of long runs, and the process itself: numbers of sched(7).
fn policies(process: &Process) -> (BTreeSet<String>, String) {
    let id = process.id();
    // The 41st number of a `stat`, of which two are before the end of its name in parentheses.
    let policy = |path: &Path| {
        let stat = fs::read_to_string(path.join("stat")).ok()?;
        let (name, rest) = stat.rsplit_once(')')?;
        let own = name.ends_with("(long-runs");
        Some((own, rest.split_whitespace().nth(38)?.to_owned()))
    };
    let threads = fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let threads = threads.filter_map(|thread| policy(&thread.unwrap().path()));
    let long = threads.filter_map(|(own, policy)| own.then_some(policy)).collect();
    (long, policy(Path::new(&format!("/proc/{id}"))).unwrap().1)
}

#[tokio::test]
async fn long_runs_stand_back_on_a_server_and_not_beside_an_author() {
    // SCHED_IDLE.
    let idle = || BTreeSet::from(["5".to_owned()]);
    let folder = tempfile::tempdir().unwrap();
    let server = Process::serve(folder.path());
    let found = || Some(policies(&server).0).filter(|long| *long == idle());
    eventually("thread that stands back", found).await;

    let folder = tempfile::tempdir().unwrap();
    let mut dev = command();
    dev.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path().join("dev"));
    let mut process = Process::start(dev);
    process.read_until("start again");
    let is_own = || {
        let (long, own) = policies(&process);
        (long == BTreeSet::from([own])).then_some(())
    };
    eventually("thread that does not", is_own).await;
}
