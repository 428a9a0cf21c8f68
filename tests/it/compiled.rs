//! Compiled code on disk: made once, loaded ever after, believed only if it is what was kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use reqwest::Method;
use serde_json::json;
use tokamak::crypto::hash::sha256_hex;
use tokamak::crypto::keys::RootKey;
use tokamak::crypto::seal::Key;
use tokamak::runtime::{CacheConfig, CompileBounds};

use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command, eventually};
use crate::support::hostile_components::variant;
use crate::support::server::{Setup, root_key, runtime};
use crate::support::{Client, TestServer, guests};

const KEY: [u8; 32] = [7; 32];
/// The formulas that ship.
const OFFICIAL: [&str; 5] =
    ["card-insights", "http-forward", "identity-match", "nacha-file", "payment-authorize"];

/// What tells a file from all others that exist, or are held, at the same time.
fn inode(file: &File) -> u64 {
    file.metadata().unwrap().ino()
}

/// Files below a folder by name: which they are, and when they were last used.
fn files(folder: &Path) -> BTreeMap<String, (u64, SystemTime)> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(Result::unwrap);
    let told = entries.filter_map(|entry| {
        let about = entry.metadata().ok()?;
        let name = entry.file_name().into_string().unwrap();
        Some((name, (about.ino(), about.modified().unwrap())))
    });
    told.filter(|(name, _)| name != "unfinished").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn formulas_that_ship_are_compiled_at_the_first_start_and_loaded_at_the_second() {
    let folder = tempfile::tempdir().unwrap();
    let compiled = folder.path().join("compiled");
    let process = Process::serve(folder.path());
    let all = || Some(files(&compiled)).filter(|files| files.len() == OFFICIAL.len());
    let first = eventually("compiled code of all formulas", all).await;
    assert_eq!(fs::metadata(&compiled).unwrap().permissions().mode() & 0o777, 0o700);
    for name in first.keys() {
        let mode = fs::metadata(compiled.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    for name in OFFICIAL {
        let digest = sha256_hex(tokamak::vault::official_component(name).unwrap());
        assert!(first.keys().any(|file| file.starts_with(&digest)), "{name}");
    }
    assert_eq!(process.terminate(), Some(0));

    let _held: Vec<File> =
        first.keys().map(|name| File::open(compiled.join(name)).unwrap()).collect();
    let process = Process::serve(folder.path());
    let used = || {
        let now = files(&compiled);
        now.iter().all(|(name, (_, used))| *used > first[name].1).then_some(now)
    };
    let second = eventually("use of all files", used).await;
    let which = |files: &BTreeMap<String, (u64, SystemTime)>| -> Vec<(String, u64)> {
        files.iter().map(|(name, (inode, _))| (name.clone(), *inode)).collect()
    };
    // A file that is compiled anew is another one under the same name.
    assert_eq!(which(&first), which(&second));
    assert_eq!(process.terminate(), Some(0));
}

/// A server on a folder, its compiled code in another, and reactors of two formulas that answer differently.
struct World {
    store: tempfile::TempDir,
    compiled: tempfile::TempDir,
    keys: Vec<String>,
    reactors: [String; 2],
}

/// What is compiled by a tenant, and how it is told apart.
const PACKAGES: [&str; 2] = ["bare", "probe"];

impl World {
    async fn new() -> Self {
        let (store, compiled) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let world = Self { store, compiled, keys: Vec::new(), reactors: Default::default() };
        let server = TestServer::start_with(world.setup(KEY)).await;
        let mut reactors = Vec::new();
        for package in PACKAGES {
            let formula = guests::formula(&server, package, json!({})).await;
            reactors.push(guests::reactor(&server, &formula, json!({})).await);
        }
        let keys = [&server.management, &server.private].map(|client| client.key.clone().unwrap());
        server.stop().await;
        Self { keys: keys.to_vec(), reactors: reactors.try_into().unwrap(), ..world }
    }

    fn setup(&self, key: [u8; 32]) -> Setup {
        let folder = self.compiled.path().to_owned();
        let cache = CacheConfig { folder, key: Key::from(key), bytes_max: 64 << 20, alone: true };
        Setup {
            folder: Some(self.store.path().to_owned()),
            runtime: Some(runtime(4, CompileBounds::default(), Some(cache))),
            ..Setup::default()
        }
    }

    /// Starts a server, runs both reactors and sees that each is its own.
    async fn both_answer(&self, key: [u8; 32]) {
        let server = TestServer::start_with(self.setup(key)).await;
        let private = server.client(&self.keys[1]);
        let [bare, probe] = &self.reactors;
        let react = async |reactor: &str| {
            let path = format!("/reactors/{reactor}/react");
            private.post(&path, json!({"args": {"a": 1}})).await.expect(200)["raw"].clone()
        };
        assert_eq!(react(bare).await, json!({"a": 1}));
        assert_eq!(react(probe).await["args"], json!({"a": 1}));
        server.stop().await;
    }

    fn file(&self, package: &str) -> PathBuf {
        let digest = sha256_hex(guests::component(package));
        let files = files(self.compiled.path());
        let name = files.keys().find(|name| name.starts_with(&digest));
        self.compiled.path().join(name.unwrap_or_else(|| panic!("no code of {package}")))
    }

    /// The files as they are now. While they are held, no other file gets their numbers.
    fn hold(&self) -> [File; 2] {
        PACKAGES.map(|package| File::open(self.file(package)).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_what_was_kept_is_compiled_anew() {
    let world = World::new().await;
    let (bare, probe) = (world.file("bare"), world.file("probe"));
    let kept = world.hold();
    world.both_answer(KEY).await;
    assert_eq!(world.hold().map(|file| inode(&file)), kept.each_ref().map(inode), "loaded");

    let whole = fs::read(&bare).unwrap();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let damages = [
        ("another hash", flipped(0)),
        ("other code", flipped(whole.len() / 2)),
        ("cut", whole[..whole.len() - 1].to_vec()),
        ("cut within its hash", whole[..20].to_vec()),
        ("nothing", Vec::new()),
        ("more", [&whole[..], b"more"].concat()),
        ("without a hash", whole[32..].to_vec()),
        ("another component's", fs::read(&probe).unwrap()),
    ];
    for (name, bytes) in damages {
        fs::write(&bare, &bytes).unwrap();
        world.both_answer(KEY).await;
        // The same code again, and not by leaving the file alone.
        assert!(fs::read(&bare).unwrap() == whole, "{name}");
        let [_, of_probe] = world.hold();
        assert_eq!(inode(&of_probe), inode(&kept[1]), "{name}: the other one is whole");
    }
    // A file that somebody with another key wrote.
    let before = world.hold();
    world.both_answer([8; 32]).await;
    let after = world.hold().map(|file| inode(&file));
    assert!(before.iter().all(|file| !after.contains(&inode(file))));
    // The folder is nobody's only copy of anything.
    fs::remove_dir_all(world.compiled.path()).unwrap();
    world.both_answer(KEY).await;
    assert_eq!(files(world.compiled.path()).len(), PACKAGES.len());
}

/// Uploads the same formula under another digest; gives the digest.
async fn upload(client: &Client, number: u8) -> String {
    let component = variant(guests::component("bare"), &[number]);
    client.post("/reactor-formulas", guests::upload(&component)).await.expect(201);
    sha256_hex(&component)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_unused_files_make_room() {
    let compiled = tempfile::tempdir().unwrap();
    let setup = |bytes_max| {
        let folder = compiled.path().join("compiled");
        let cache = CacheConfig { folder, key: Key::from(KEY), bytes_max, alone: false };
        let runtime = Some(runtime(2, CompileBounds::default(), Some(cache)));
        Setup { runtime, ..Setup::default() }
    };
    let folder = compiled.path().join("compiled");
    let digests = || -> Vec<String> {
        files(&folder).into_keys().map(|name| name.split('-').next().unwrap().to_owned()).collect()
    };
    let sizes = || -> u64 {
        fs::read_dir(&folder).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum()
    };

    let server = TestServer::start_with(setup(64 << 20)).await;
    let a = upload(&server.management, 1).await;
    let bytes_max = sizes() * 5 / 2;
    server.stop().await;
    // Room for two. Every server is a new one, so that each use is one of the file.
    let b = upload(&TestServer::start_with(setup(bytes_max)).await.management, 2).await;
    assert_eq!(upload(&TestServer::start_with(setup(bytes_max)).await.management, 1).await, a);
    let server = TestServer::start_with(setup(bytes_max)).await;
    let c = upload(&server.management, 3).await;
    let kept = digests();
    assert!(kept.contains(&a) && kept.contains(&c) && !kept.contains(&b), "b was unused longest");
    for number in 4..8 {
        upload(&server.management, number).await;
        assert!(sizes() <= bytes_max, "{} of {bytes_max}", sizes());
        assert_eq!(digests().len(), 2);
    }
    // What is larger than all the room is not kept, and takes nobody else's.
    let before = digests();
    let server = TestServer::start_with(setup(100)).await;
    upload(&server.management, 9).await;
    assert_eq!(digests(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_kept_under_the_old_root_key_counts_no_more_once_that_is_rotated() {
    let folder = tempfile::tempdir().unwrap();
    let cache = |root: &RootKey| CacheConfig {
        folder: folder.path().join("compiled"),
        key: CacheConfig::key_of(root),
        bytes_max: 64 << 20,
        alone: false,
    };
    let sandbox = runtime(2, CompileBounds::default(), Some(cache(&root_key())));
    let setup = Setup { runtime: Some(sandbox.clone()), ..Setup::default() };
    let server = TestServer::start_with(setup).await;
    let before = upload(&server.management, 1).await;
    assert!(sandbox.load(&before).await.unwrap().is_some());
    let next = RootKey::parse("QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=").unwrap();
    server.vault.rotate_root_key(next.clone()).await.unwrap();
    assert!(sandbox.load(&before).await.unwrap().is_none());
    // What is compiled from then on is found by the next start, which has the new key.
    let after = upload(&server.management, 2).await;
    server.stop().await;
    let sandbox = runtime(2, CompileBounds::default(), Some(cache(&next)));
    assert!(sandbox.load(&after).await.unwrap().is_some());
    assert!(sandbox.load(&before).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_formula_has_any_more_is_removed() {
    let compiled = tempfile::tempdir().unwrap();
    let folder = compiled.path().join("compiled");
    let cache = CacheConfig {
        folder: folder.clone(),
        key: Key::from(KEY),
        bytes_max: 64 << 20,
        alone: true,
    };
    let runtime = Some(runtime(2, CompileBounds::default(), Some(cache)));
    let server = TestServer::start_with(Setup { runtime, ..Setup::default() }).await;
    let digests = || -> BTreeSet<String> {
        files(&folder).into_keys().map(|name| name.split('-').next().unwrap().to_owned()).collect()
    };
    server.vault.compile_official().await;
    server.vault.sweep().await.unwrap();
    let official = digests();
    assert_eq!(official.len(), OFFICIAL.len());
    let erased = server.vault.create_tenant("erased", None).await.unwrap();
    let other = server.client(erased.management_key.expose());
    let make = async |client: &Client, number: u8| {
        let component = variant(guests::component("bare"), &[number]);
        let made = client.post("/reactor-formulas", guests::upload(&component)).await.expect(201);
        (sha256_hex(&component), format!("/reactor-formulas/{}", made["id"].as_str().unwrap()))
    };
    let kept = async |expected: &[&String]| {
        server.vault.sweep().await.unwrap();
        let mut all = official.clone();
        all.extend(expected.iter().map(|digest| (*digest).clone()));
        assert_eq!(digests(), all);
    };
    let (one, one_path) = make(&server.management, 1).await;
    let (two, two_path) = make(&server.management, 2).await;
    // The same code as another tenant's formula, and code that is nobody else's.
    make(&other, 1).await;
    let (three, _) = make(&other, 3).await;
    // Code of another engine, and what a process left that was killed while it wrote.
    let old = folder.join(format!("{two}-anotherengine"));
    fs::write(&old, "code").unwrap();
    fs::write(folder.join("unfinished"), "code").unwrap();
    kept(&[&one, &two, &three]).await;
    assert!(!folder.join("unfinished").exists());

    server.management.delete(&two_path).await.expect(204);
    kept(&[&one, &three]).await;
    assert!(!old.exists());
    let four = guests::upload(&variant(guests::component("bare"), &[4]));
    server.management.put(&one_path, four).await.expect(200);
    let four = sha256_hex(&variant(guests::component("bare"), &[4]));
    kept(&[&one, &three, &four]).await;
    server.vault.erase_tenant(erased.tenant.id).await.unwrap();
    server.vault.sweep_erased().await.unwrap();
    let mut all = official.clone();
    all.insert(four);
    assert_eq!(digests(), all);
}

/// How long a start takes with many formulas. Run it by name; it takes minutes.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn starting_with_many_formulas() {
    let folder = tempfile::tempdir().unwrap();
    let mut made = 0;
    for count in [10, 1_000] {
        let process = Process::serve(folder.path());
        while made < count {
            let number = u32::try_from(made).unwrap().to_be_bytes();
            let component = variant(guests::component("bare"), &number);
            let body = guests::upload(&component);
            process.management().post("/reactor-formulas", body).await.expect(201);
            made += 1;
        }
        assert_eq!(process.terminate(), Some(0));
        let mut starts = Vec::new();
        for _ in 0..5 {
            let began = Instant::now();
            let process = Process::serve(folder.path());
            process.management().get("/tenants/self").await.expect(200);
            starts.push(began.elapsed());
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(process.terminate(), Some(0));
        }
        starts.sort();
        let kept = files(&folder.path().join("compiled")).len();
        println!("{count} formulas, {kept} files: {starts:?} until the first answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_logged_on_the_way_of_a_request_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let start = |more: &[&str]| {
        let mut serve = command();
        // Warnings alone, from whatever thread.
        serve.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--log-format", "json"]);
        serve.args(more).arg("--data-dir").arg(folder.path().join("data"));
        serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
        serve.stderr(File::create(&log).unwrap());
        Process::start(serve)
    };
    let process = start(&[]);
    let management = process.management();
    let formula = guests::send(&management, "bare", json!({})).await;
    let body = json!({"name": "r", "formula": {"id": formula}, "configuration": {}});
    let reactor = management.post("/reactors", body).await.expect(201);
    let body = json!({"name": "p", "type": "private", "permissions": ["token:use"]});
    let made = management.post("/applications", body).await.expect(201);
    assert_eq!(process.terminate(), Some(0));
    let compiled = folder.path().join("data/compiled");
    let digest = sha256_hex(guests::component("bare"));
    let path = format!("/reactors/{}/react", reactor["id"].as_str().unwrap());
    // With traces that go elsewhere, other lines are for other eyes.
    for more in [&[][..], &["--otlp-endpoint", "http://127.0.0.1:9"]] {
        let file = files(&compiled).into_keys().find(|name| name.starts_with(&digest)).unwrap();
        fs::write(compiled.join(file), "something else").unwrap();
        let process = start(more);
        let client = Client::new(process.address, made["key"].as_str());
        let request = client.request(Method::POST, &path).json(&json!({"args": {"a": 1}}));
        let answer = client.send(request.header("svc-trace-id", "trace-of-it")).await;
        // Compiling may take longer than a run may; then it is refused, and no less told.
        assert!([200, 503].contains(&answer.status.as_u16()), "{}", answer.text());
        let kept = || files(&compiled).into_keys().find(|name| name.starts_with(&digest));
        eventually("its code is kept anew", kept).await;
        assert_eq!(process.terminate(), Some(0));
        let log = fs::read_to_string(&log).unwrap();
        let mut lines = log.lines().filter(|line| line.contains("or changed since"));
        let told = lines.next().unwrap_or_else(|| panic!("it is not told: {log}"));
        assert!(told.contains("\"trace_id\":\"trace-of-it\""), "{more:?}: {told}");
    }
}
