//! Reading a root key from where it is: the text, a file, or a command of a key service.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use zeroize::Zeroizing;

use self::heard::{Heard, Keeps};
use self::said::complaint;
use super::Failure;
use crate::config::{RootKeySource, credentials_folder};
use crate::crypto::keys::RootKey;
use crate::limits::ROOT_KEY_TEXT_BYTES_MAX;

mod heard;
mod said;

/// How often it is looked whether a command has ended.
const LOOKED_AFTER: Duration = Duration::from_millis(20);
/// Permissions of others than the owner.
const OTHERS: u32 = 0o077;
/// The group's permission to read. The file of a credential is root's, and systemd lets the service read it by an access
/// list; what such a list allows at most is shown in the group's place.
const GROUP_READS: u32 = 0o040;

/// The command that is asked now, with all that it started.
static ASKED: Mutex<Option<Pid>> = Mutex::new(None);

/// Reads the key.
pub fn read(source: &RootKeySource) -> Result<RootKey, Failure> {
    let text = match source {
        RootKeySource::Text(text) => text.clone(),
        RootKeySource::File(path) => read_file(path, credentials_folder().as_deref())?,
        RootKeySource::Command(words, bound) => ask(words, *bound)?,
    };
    Ok(RootKey::parse(&text)?)
}

/// The text of a file that nobody but its owner may read, or whom a credential is for.
fn read_file(path: &Path, credentials: Option<&Path>) -> Result<Zeroizing<String>, Failure> {
    if let Some(text) = path.to_str()
        && RootKey::parse(text).is_ok()
    {
        return Err("the file of the root key is to be named, and not the key itself".into());
    }
    let named = |error: io::Error| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(named)?;
    // Of the file that is open: what the name stands for may change.
    let metadata = file.metadata().map_err(named)?;
    if metadata.is_dir() {
        return Err(format!("{} is a folder, and no file with a root key", path.display()).into());
    }
    let mode = metadata.mode();
    let is_credential = credentials.is_some() && path.parent() == credentials;
    let refused = if is_credential { OTHERS & !GROUP_READS } else { OTHERS };
    if mode & refused != 0 {
        return Err(format!(
            "{} holds the root key and is open to others than its owner (mode {:03o}): chmod 600",
            path.display(),
            mode & 0o777
        )
        .into());
    }
    Ok(text(bounded(file).map_err(named)?)?)
}

/// What a command prints. It is killed with all it started when it takes too long.
fn ask(words: &[String], bound: Duration) -> Result<Zeroizing<String>, Failure> {
    let Some((program, arguments)) = words.split_first() else {
        return Err("there is no command".into());
    };
    if RootKey::parse(program).is_ok() {
        return Err("the command for the root key is to be given, and not the key itself".into());
    }
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Held while it is started, so that who gives it up finds it.
    let mut asked = ASKED.lock();
    let mut child = command
        .process_group(0)
        .spawn()
        .map_err(|error| format!("the command for the root key, {program}: {error}"))?;
    *asked = group(&child);
    drop(asked);
    let printed = Heard::listen(child.stdout.take(), Keeps::First);
    let complained = Heard::listen(child.stderr.take(), Keeps::Last);
    // A bound past all time is none.
    let until = Instant::now().checked_add(bound);
    let ended = wait(&mut child, until)?;
    // What it has left behind holds the other ends of the pipes; what has left its group does that still.
    kill_all(group(&child));
    *ASKED.lock() = None;
    let Some(status) = ended else {
        let _ = child.wait();
        let complaint = complaint(&complained.text());
        let seconds = bound.as_secs();
        return Err(format!("the command for the root key took over {seconds} s{complaint}").into());
    };
    let printed = printed.text();
    if !status.success() {
        let complaint = complaint(&complained.text());
        return Err(format!("the command for the root key failed: {status}{complaint}").into());
    }
    // There is nothing to be mended, and the key may be in it, however it is spelled.
    let bytes = complained.text().bytes().len();
    if bytes > 0 {
        tracing::warn!(
            bytes,
            "what the command for the root key wrote to standard error is not shown"
        );
    }
    Ok(text(Zeroizing::new(printed.bytes().to_vec()))?)
}

fn wait(child: &mut Child, until: Option<Instant>) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(None);
        }
        std::thread::sleep(LOOKED_AFTER);
    }
}

/// Ends the command that is asked now, if one is, for a process that ends before it has the key; none is asked from here
/// on.
pub fn give_up() {
    let mut asked = ASKED.lock();
    kill_all(asked.take());
    std::mem::forget(asked);
}

/// The group of a process and all that it started.
fn group(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

fn kill_all(group: Option<Pid>) {
    // Nothing is left of most groups.
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
}

/// Reads so many bytes that a longer text than a key's is told apart, into memory that never moves.
fn bounded(from: impl Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; ROOT_KEY_TEXT_BYTES_MAX]);
    let (mut from, mut length) = (from, 0);
    while length < bytes.len() {
        match from.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

fn text(mut bytes: Zeroizing<Vec<u8>>) -> Result<Zeroizing<String>, &'static str> {
    let text = String::from_utf8(std::mem::take(&mut *bytes)).map(Zeroizing::new);
    text.map_err(|error| {
        drop(Zeroizing::new(error.into_bytes()));
        "the root key must be 32 bytes in base64"
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::time::{Duration, Instant};

    use super::{read, read_file};
    use crate::config::RootKeySource;

    const KEY: &str = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";

    fn shell(script: &str, seconds: u64) -> RootKeySource {
        let words = ["sh", "-c", script].map(str::to_owned);
        RootKeySource::Command(words.to_vec(), Duration::from_secs(seconds))
    }

    fn refusal(source: &RootKeySource) -> String {
        read(source).unwrap_err().to_string()
    }

    #[test]
    fn a_command_prints_the_key() {
        let key = read(&shell(&format!("echo; echo {KEY}; echo done >&2"), 60)).unwrap();
        assert_eq!(*key.to_base64(), KEY);
        // What it leaves running, with its pipes, is not waited for.
        let key = read(&shell(&format!("sleep 600 & echo {KEY}"), 60)).unwrap();
        assert_eq!(*key.to_base64(), KEY);
        // Nor where that has left its group, and cannot be ended with it.
        let began = Instant::now();
        let key = read(&shell(&format!("setsid sleep 20 & echo {KEY}"), 60)).unwrap();
        assert!(*key.to_base64() == KEY && began.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_command_that_fails_is_told_of_without_a_key() {
        let missing = RootKeySource::Command(vec!["/nowhere/key".to_owned()], Duration::MAX);
        assert!(refusal(&missing).contains("/nowhere/key"));
        let said =
            refusal(&shell(&format!("echo {KEY}; echo \"no ({KEY}) luck\" >&2; exit 3"), 60));
        let expected = "exit status: 3; it said: no ([hidden]=) luck; run the command by hand to read the rest";
        assert!(said.ends_with(expected), "{said}");
        let said = refusal(&shell(&format!("echo 'key={}' >&2; exit 1", &KEY[..30]), 60));
        assert!(said.contains("; it said: key=[hidden]; run"), "{said}");
        assert!(refusal(&shell("echo short", 60)).contains("32 bytes in base64"));
        assert!(refusal(&shell("printf '\\377\\376'", 60)).contains("32 bytes in base64"));
        assert!(
            refusal(&shell("yes A | head -c 1000000; yes B | head -c 1000000 >&2", 60))
                .contains("32 bytes")
        );
    }

    #[test]
    fn a_command_that_does_not_end_is_ended() {
        let said = refusal(&shell("echo wait >&2; sleep 600", 1));
        assert!(said.contains("took over 1 s; it said: wait"), "{said}");
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, format!("{KEY}\n")).unwrap();
        let source = RootKeySource::File(path.clone());
        for mode in [0o644, 0o640, 0o604, 0o660, 0o620, 0o601] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let said = refusal(&source);
            assert!(said.contains(&format!("(mode {mode:03o})")) && !said.contains(KEY), "{said}");
        }
        for mode in [0o600, 0o400] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(*read(&source).unwrap().to_base64(), KEY);
        }
        assert!(refusal(&RootKeySource::File(folder.path().join("none"))).contains("none"));
        let said = refusal(&RootKeySource::File(folder.path().to_owned()));
        assert!(said.contains("is a folder") && !said.contains("chmod"), "{said}");
    }

    #[test]
    fn a_credential_may_be_its_groups_to_read_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, KEY).unwrap();
        let read_as = |mode: u32, credentials: Option<&Path>| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read_file(&path, credentials).map(|text| text.to_string()).ok()
        };
        let here = Some(folder.path());
        for mode in [0o400, 0o440, 0o600, 0o640] {
            assert_eq!(read_as(mode, here).as_deref(), Some(KEY), "{mode:03o}");
        }
        for mode in [0o444, 0o404, 0o460, 0o420, 0o450, 0o401] {
            assert_eq!(read_as(mode, here), None, "{mode:03o}");
        }
        // Beside the folder, and below it.
        let elsewhere = [None, folder.path().parent(), Some(path.as_path())];
        for credentials in elsewhere {
            assert_eq!(read_as(0o440, credentials), None, "{credentials:?}");
        }
    }
}
