//! A disk that takes nothing new, as the operator is told of it at the command line, and nobody else.

use std::fs::{self, File};

use rustix::fs::{FallocateFlags, fallocate};
use serde_json::json;

use crate::disk::Mount;
use crate::support::binary::{Process, ROOT_KEY};
use crate::support::operator::{done, operate};

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_named_with_what_is_free_whoever_does_the_work() {
    let Some(disk) = Mount::make(400) else { return };
    let data = disk.path().join("data");
    let process = Process::serve(&data);
    let filler = disk.path().join("filler");
    fallocate(File::create(&filler).unwrap(), FallocateFlags::empty(), 0, 300 << 20).unwrap();
    // Last on standard error, behind what is logged.
    let refused = |root_key: Option<&str>, words: &[&str]| {
        let (code, out, err) = operate(&data, root_key, words);
        assert_eq!((code, out.as_str()), (1, ""), "{words:?}: {err}");
        let told = err.lines().last().unwrap();
        let begin = format!("tokamak: {}: ", data.display());
        assert!(told.starts_with(&begin), "{words:?}: {told}");
        assert!(told.contains(" MiB free; 128 MiB stay free"), "{words:?}: {told}");
    };
    let commands: [&[&str]; 2] =
        [&["tenant", "create", "second"], &["keys", "rotate", "--all-tenants"]];
    for words in commands {
        refused(None, words);
    }
    // That may give space back.
    done(&data, None, &["compact"]);
    let body = json!({"name": "p", "type": "private", "permissions": ["token:read"]});
    let answer = process.management().post("/applications", body).await.expect(503);
    let told = answer.to_string();
    assert!(!told.contains(data.to_str().unwrap()) && !told.contains("MiB"), "{told}");
    assert_eq!(process.terminate(), Some(0));

    for words in commands {
        refused(Some(ROOT_KEY), words);
    }
    done(&data, Some(ROOT_KEY), &["compact"]);
    // A vault that is not there yet.
    let new = disk.path().join("new");
    let (code, _, err) = operate(&new, Some(ROOT_KEY), &["tenant", "create", "first"]);
    let begin = format!("tokamak: {}: ", new.display());
    assert!(code == 1 && err.lines().last().unwrap().starts_with(&begin), "{err}");
    fs::remove_file(filler).unwrap();
    done(&data, Some(ROOT_KEY), &["tenant", "create", "second"]);
}
