//! `examples/checkout`, run as they stand there against the real binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::Client;
use crate::support::binary::{Process, command};
use crate::support::receiver::Receiver;
use crate::support::workshop::is_there;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("examples/checkout").join(name)
}

/// A server for trying things out, with what it printed.
struct Dev {
    process: Process,
    _folder: tempfile::TempDir,
}

impl Dev {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut dev = command();
        dev.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path().join("data"));
        let mut process = Process::start(dev);
        process.read_until("start again");
        Self { process, _folder: folder }
    }

    fn key(&self, name: &str) -> &str {
        let line = self.process.printed.iter().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap()
    }

    fn management(&self) -> Client {
        Client::new(self.process.address, Some(self.key("management key")))
    }

    /// Runs an example; gives what it printed, or nothing when its interpreter is missing.
    fn run(&self, interpreter: &str, name: &str, more: &[(&str, &str)]) -> Option<String> {
        if !is_there(interpreter) {
            return None;
        }
        let lines = &self.process.printed;
        let reactor = lines.iter().find_map(|line| line.split("/reactors/").nth(1)).unwrap();
        let mut run = Command::new(interpreter);
        run.arg(example(name)).envs(more.iter().copied());
        run.env("BASE", format!("http://{}", self.process.address));
        run.env("PRIVATE", self.key("private key")).env("MANAGEMENT", self.key("management key"));
        let Output { status, stdout, stderr } =
            run.env("REACTOR", &reactor[..36]).output().unwrap();
        let (printed, errors) =
            (String::from_utf8(stdout).unwrap(), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "{name}: {printed}\n{errors}");
        Some(printed)
    }
}

/// Every line begins so, in this order.
fn assert_lines(printed: &str, starts: &[&str]) {
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), starts.len(), "{printed}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{start} in {printed}");
    }
}

const STORY: [&str; 4] =
    ["stored ", "found 1", "answered Visa 4242", "verified reactor.completed 4242"];

#[test]
fn in_python() {
    let dev = Dev::start();
    let Some(printed) = dev.run("python3", "checkout.py", &[]) else { return };
    assert_lines(&printed, &STORY);
    assert!(!printed.contains("4242424242424242"), "{printed}");
}

#[test]
fn in_node() {
    let dev = Dev::start();
    let Some(printed) = dev.run("node", "checkout.mjs", &[]) else { return };
    assert_lines(&printed, &STORY);
    assert!(!printed.contains("4242424242424242"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_curl() {
    if !is_there("curl") || !is_there("sh") {
        return;
    }
    let dev = Dev::start();
    let receiver = Receiver::start().await;
    let url = receiver.url();
    let (dev, printed) = tokio::task::spawn_blocking(move || {
        let printed = dev.run("sh", "checkout.sh", &[("CALLBACK", &url)]);
        (dev, printed)
    })
    .await
    .unwrap();
    assert_lines(&printed.unwrap(), &["stored ", "found 1", "answered 4242", "told 4242"]);

    // What arrived is believed by its secret alone.
    let hook = receiver.wait(1).await.remove(0);
    let secrets = dev.management().get("/webhooks/signing-secrets").await.expect(200);
    let secret = secrets[0]["secret"].as_str().unwrap().to_owned();
    if !is_there("openssl") {
        return;
    }
    let verify = |secret: &str, id: &str, body: &[u8]| {
        let headers = ["webhook-timestamp", "webhook-signature"].map(|name| hook.header(name));
        let mut verify = Command::new("sh");
        verify.arg(example("verify.sh")).args([secret, id]).args(headers);
        let mut child = verify.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), body).unwrap();
        child.wait().unwrap().success()
    };
    let id = hook.header("webhook-id");
    assert!(verify(&secret, id, &hook.bytes));
    assert!(!verify(&secret, "another-id", &hook.bytes));
    assert!(!verify("whsec_b3RoZXI=", id, &hook.bytes));
    assert!(!verify(&secret, id, b"{}"));
}
