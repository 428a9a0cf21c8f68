//! The console's files: what they are told to browsers with, and that they can be left out.

use std::collections::BTreeSet;
use std::path::Path;

use reqwest::Method;
use tokamak::crypto::hash::sha256_hex;

use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command};
use crate::support::{Answer, Client, TestServer};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types lit-html";

/// The library's files are those of npm's `lit-html` 3.3.3, byte for byte.
const VENDORED: [(&str, &str); 4] = [
    ("lit-html.js", "b878e7f95dec8a9b6e9b217faca6b6a11bad82ebc44c0caa77419ed83edd81f2"),
    ("directive.js", "3344c4f41c69cd0701d3937e8f9ef90bd845614bf6456d0b8314b7c51d415b9d"),
    ("directive-helpers.js", "f7fb1154b8f72ed2cc08b05eaeed71c99270e9ad2d48620ed24688a1af4c2b62"),
    ("directives/live.js", "b305f9066319d838db797abd5a4d871537277e25f35332702bfce4452c020ecf"),
];

#[track_caller]
fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    let all: Vec<_> = answer.headers.get_all(name).iter().collect();
    assert_eq!(all.len(), 1, "{name}");
    all[0].to_str().unwrap()
}

/// Where the page says that its files lie.
async fn folder(client: &Client) -> String {
    let page = client.get("/console").await.text();
    let start = page.find("/console/").unwrap();
    page[start..].split("/main.js").next().unwrap().rsplit('"').next().unwrap().to_owned()
}

/// What stands between quotes behind these words.
fn quoted_after<'a>(text: &'a str, words: &str) -> Vec<&'a str> {
    text.split(words).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// An address that a file names, seen from that file.
fn resolve(from: &str, name: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in name.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_asked_for_anew_and_its_files_are_kept() {
    let server = TestServer::start().await;
    let stranger = server.stranger();
    for path in ["/console", "/console/"] {
        let page = stranger.get(path).await;
        assert_eq!(page.status, 200, "{path}");
        assert_eq!(header(&page, "content-type"), "text/html; charset=utf-8");
        assert_eq!(header(&page, "cache-control"), "no-cache");
        assert_eq!(header(&page, "content-security-policy"), POLICY);
        assert_eq!(header(&page, "x-frame-options"), "DENY");
        assert_eq!(header(&page, "x-content-type-options"), "nosniff");
        assert_eq!(header(&page, "referrer-policy"), "no-referrer");
        assert_eq!(header(&page, "cross-origin-opener-policy"), "same-origin");
    }
    // Whoever knows the address alone is led here.
    let first = stranger.get("/").await;
    assert_eq!((first.status.as_u16(), first.text()), (200, stranger.get("/console").await.text()));
    let tag = header(&stranger.get("/console").await, "etag").to_owned();
    for (given, status) in [(tag.as_str(), 304), ("\"another\"", 200)] {
        let asked = stranger.request(Method::GET, "/console").header("if-none-match", given);
        let answer = stranger.send(asked).await;
        assert_eq!(answer.status, status, "{given}");
        assert_eq!(answer.bytes.is_empty(), status == 304);
        assert_eq!(header(&answer, "etag"), tag);
    }
    let script = stranger.get(&format!("{}/main.js", folder(&stranger).await)).await;
    assert_eq!(script.status, 200);
    assert_eq!(header(&script, "content-type"), "text/javascript; charset=utf-8");
    assert_eq!(header(&script, "cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(header(&script, "content-security-policy"), POLICY);
}

/// Whether a file is of a kind.
fn is(path: &str, kind: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == kind)
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_the_page_loads_is_there_and_nothing_is_inline() {
    let server = TestServer::start().await;
    let stranger = server.stranger();
    let page = stranger.get("/console").await.text();
    assert!(!page.contains(" style=") && !page.contains("<style"), "{page}");
    for script in page.split("<script").skip(1) {
        let (head, rest) = script.split_once('>').unwrap();
        assert!(head.contains("src=\"/console/"), "{script}");
        assert!(rest.starts_with("</script>"), "{script}");
    }
    let mut open: Vec<String> = [quoted_after(&page, "src=\""), quoted_after(&page, "href=\"")]
        .concat()
        .into_iter()
        .filter(|path| path.starts_with("/console/"))
        .map(str::to_owned)
        .collect();
    let mut seen = BTreeSet::new();
    while let Some(path) = open.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let answer = stranger.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        let text = answer.text();
        assert!(!text.contains("http://") || is(&path, "svg"), "{path} names another place");
        if is(&path, "js") && !path.contains("/vendor/") {
            for banned in
                ["innerHTML", "localStorage", "sessionStorage", "document.cookie", "eval("]
            {
                assert!(!text.contains(banned), "{path} uses {banned}");
            }
        }
        let loads = |line: &&str| line.starts_with("import") || line.starts_with("export {");
        for line in text.lines().filter(loads) {
            let line = line.replace("from\"", "from \"");
            open.extend(quoted_after(&line, "from \"").iter().map(|name| resolve(&path, name)));
        }
    }
    assert!(seen.len() > 25, "{seen:?}");
    assert!(seen.iter().any(|path| path.ends_with("directives/live.js")), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_told_and_not_kept() {
    let server = TestServer::start().await;
    let stranger = server.stranger();
    let own = folder(&stranger).await;
    for path in [
        format!("{own}/none.js"),
        format!("{own}/../main.js"),
        format!("{own}/%2e%2e/main.js"),
        format!("{own}/pages"),
        "/console/000000000000000000000000/main.js".to_owned(),
        "/console/main.js".to_owned(),
        own.clone(),
    ] {
        let answer = stranger.get(&path).await;
        assert_eq!(answer.expect(404)["title"], "Not Found", "{path}");
        assert_ne!(header(&answer, "cache-control"), "public, max-age=31536000, immutable");
    }
    for method in [Method::POST, Method::PUT, Method::DELETE] {
        let answer = stranger.send(stranger.request(method, "/console")).await;
        answer.expect(405);
    }
    // Nothing of it opens anything: the interface answers as ever.
    stranger.get("/tokens").await.expect(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_is_what_its_makers_published() {
    let server = TestServer::start().await;
    let stranger = server.stranger();
    let own = folder(&stranger).await;
    for (name, digest) in VENDORED {
        let answer = stranger.get(&format!("{own}/vendor/lit-html-3.3.3/{name}")).await;
        assert_eq!(sha256_hex(&answer.bytes), digest, "{name}");
    }
    let licence = stranger.get(&format!("{own}/vendor/lit-html-3.3.3/LICENSE")).await.text();
    assert!(licence.starts_with("BSD 3-Clause License"), "{licence}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_can_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let serve = |flags: &[&str]| {
        let mut serve = command();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "warn"]);
        serve.args(flags).arg("--data-dir").arg(folder.path());
        serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
        serve
    };
    let without = Process::start(serve(&["--no-console"]));
    without.management().get("/console").await.expect(404);
    without.management().get("/applications").await.expect(200);
    let docs = without.management().get("/docs").await.text();
    assert_eq!(without.management().get("/").await.text(), docs);
    assert_eq!(without.terminate(), Some(0));
    let mut by_variable = serve(&[]);
    by_variable.env("TOKAMAK_NO_CONSOLE", "true");
    let without = Process::start(by_variable);
    without.management().get("/console").await.expect(404);
    assert_eq!(without.terminate(), Some(0));
    let with = Process::start(serve(&["--no-console=false"]));
    assert_eq!(with.management().get("/console").await.status, 200);
}
