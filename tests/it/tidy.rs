//! The house rules as tests: floors, fences, sizes, no forgotten files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

const SOURCE_LINES_MAX: usize = 400;
const TEST_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const PARAMETERS_MAX: usize = 5;
const LINE_CHARS_MAX: usize = 140;

/// The floors from the ground up. A module uses what lies on its own module or below, never beside or above.
const FLOORS: &[&[&str]] = &[
    &["limits", "clock", "config", "figures", "traces"],
    &["model"],
    &["crypto", "expression", "query", "token_type", "binding"],
    &["store", "runtime", "egress"],
    &["vault"],
    &["http", "cli"],
];

/// Uses on one floor that are allowed, each for its reason.
const SIDEWAYS: &[(&str, &str)] = &[
    // Fingerprints and aliases need keyed hashes and randomness.
    ("expression", "crypto"),
    // The command line starts the server.
    ("cli", "http"),
    // Defaults of options are limits.
    ("config", "limits"),
];

/// Outside crates and the one place each lives in.
const FENCES: &[(&str, &[&str])] = &[
    ("axum", &["http/"]),
    ("governor", &["http/"]),
    ("prometheus_client", &["figures"]),
    ("procfs", &["figures/"]),
    ("tower", &["egress/", "http/"]),
    ("tower_http", &["http/"]),
    ("utoipa_axum", &["http/"]),
    ("utoipa_swagger_ui", &["http/"]),
    ("sled", &["store/sled/"]),
    ("roaring", &["store/sled/"]),
    ("pest", &["query/"]),
    ("pest_derive", &["query/"]),
    ("wasmtime", &["runtime/"]),
    ("wasmparser", &["runtime/"]),
    ("object", &["runtime/"]),
    ("wasmtime_wasi", &["runtime/"]),
    ("reqwest", &["egress/"]),
    // Requests in and out, and those of the load generator.
    ("hyper", &["egress/", "http/", "cli/benchmark/"]),
    ("hyper_util", &["egress/", "http/", "cli/benchmark/"]),
    ("hdrhistogram", &["cli/benchmark/"]),
    ("tokio_rustls", &["egress/", "http/"]),
    ("landlock", &["cli/"]),
    ("seccompiler", &["cli/"]),
    ("url", &["egress/"]),
    ("webpki_root_certs", &["egress/"]),
    ("rustls", &["egress/", "http/"]),
    ("rustls_native_certs", &["egress/"]),
    // What the kernel bounds: compilers in the one, open files of the server in the other, the disk's free space, and how
    // much memory there is.
    ("rustix", &["runtime/", "cli/", "store/sled/", "config/", "figures/process.rs", "clock.rs"]),
    ("liquid", &["expression/"]),
    ("liquid_core", &["expression/"]),
    ("liquid_lib", &["expression/"]),
    ("serde_json_path", &["expression/"]),
    ("quick_cache", &["expression/", "vault/"]),
    ("aws_lc_rs", &["crypto/", "expression/"]),
    ("clap", &["cli/", "config"]),
    ("clap_complete", &["cli/"]),
    ("clap_mangen", &["cli/"]),
    ("toml", &["config.rs"]),
    ("shlex", &["config/"]),
    ("tracing_subscriber", &["cli/", "traces"]),
    ("tracing_opentelemetry", &["traces"]),
    ("opentelemetry", &["traces"]),
    ("opentelemetry_otlp", &["traces"]),
    ("opentelemetry_sdk", &["traces"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every Rust file below these folders, with its path relative to the root.
fn rust_files(folders: &[&str]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "target") {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    assert!(!found.is_empty());
    found
}

fn is_test(path: &str) -> bool {
    path.starts_with("tests/")
        || path.contains("tests.rs")
        || path.contains("/tests/")
        || path.contains("conformance")
}

#[test]
fn no_file_or_line_is_too_long() {
    let mut wrong = Vec::new();
    let folders = ["host", "sdk-guest", "formulas", "tests", "examples"];
    for (path, text) in rust_files(&folders) {
        let lines = text.lines().count();
        let max = if is_test(&path) { TEST_LINES_MAX } else { SOURCE_LINES_MAX };
        if lines > max {
            wrong.push(format!("{path}: {lines} lines of {max}"));
        }
        for (index, line) in text.lines().enumerate() {
            if line.chars().count() > LINE_CHARS_MAX
                && !line.contains("http")
                && !line.contains('"')
            {
                wrong.push(format!("{path}:{}: a line of over {LINE_CHARS_MAX}", index + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Crate-level modules that a file names, as `crate::module`.
fn uses(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        if text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let name: String =
            text[at + 7..].chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
        found.push(name);
    }
    found
}

/// Up to the tests, where these stand in the file itself: `mod tests;` stands before the code.
fn without_tests(text: &str) -> &str {
    const BEGINNING: &str = "#[cfg(test)]\nmod ";
    let mut beginnings = text.match_indices(BEGINNING).map(|(at, _)| at);
    let inline = |at: &usize| {
        let name = text[at + BEGINNING.len()..].lines().next().unwrap_or_default();
        name.trim_end().ends_with('{')
    };
    beginnings.find(inline).map_or(text, |at| &text[..at])
}

#[test]
fn what_follows_tests_in_another_file_is_looked_at() {
    let declared = "use a;\n#[cfg(test)]\nmod tests;\nuse b;\n";
    assert_eq!(without_tests(declared), declared);
    let inline = "use a;\n#[cfg(test)]\nmod tests {\nuse b;\n}\n";
    assert_eq!(without_tests(inline), "use a;\n");
    let both = format!("{declared}{inline}");
    assert_eq!(without_tests(&both), format!("{declared}use a;\n"));
}

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

#[test]
fn no_floor_calls_sideways_or_up() {
    let mut wrong = Vec::new();
    for (path, text) in rust_files(&["host/src"]) {
        let inner = path.strip_prefix("host/src/").unwrap();
        let module = inner.split(['/', '.']).next().unwrap();
        if matches!(module, "lib" | "main") || is_test(&path) {
            continue;
        }
        let own = floor(module).unwrap_or_else(|| panic!("{module} is on no floor"));
        for used in uses(without_tests(&text)) {
            let Some(theirs) = floor(&used) else { continue };
            let allowed =
                theirs < own || used == module || SIDEWAYS.contains(&(module, used.as_str()));
            if !allowed {
                wrong.push(format!("{path} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn outside_crates_stay_in_their_places() {
    let mut wrong = Vec::new();
    for (path, text) in rust_files(&["host/src"]) {
        let inner = path.strip_prefix("host/src/").unwrap();
        let code: String = without_tests(&text)
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect::<Vec<_>>()
            .join("\n");
        for (name, places) in FENCES {
            let named = code.match_indices(&format!("{name}::")).any(|(at, _)| {
                !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':')
            });
            if named && !places.iter().any(|place| inner.starts_with(place)) {
                wrong.push(format!("{path} names {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

struct Functions<'a> {
    path: &'a str,
    wrong: Vec<String>,
}

impl Functions<'_> {
    fn check(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let open = block.brace_token.span.open().start().line;
        let close = block.brace_token.span.close().end().line;
        if close - open > FUNCTION_LINES_MAX {
            let lines = close - open;
            self.wrong.push(format!("{}: {} has {lines} lines", self.path, signature.ident));
        }
        let parameters = signature.inputs.len();
        let own = signature.receiver().is_some();
        if parameters - usize::from(own) > PARAMETERS_MAX {
            self.wrong.push(format!("{}: {} takes {parameters}", self.path, signature.ident));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.check(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.check(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }
}

#[test]
fn functions_are_short() {
    let mut wrong = Vec::new();
    for (path, text) in rust_files(&["host", "sdk-guest", "formulas"]) {
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut functions = Functions { path: &path, wrong: Vec::new() };
        functions.visit_file(&file);
        wrong.extend(functions.wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_says_what_it_is_for() {
    let silent: Vec<_> = rust_files(&["host/src", "sdk-guest", "formulas", "tests/it"])
        .into_iter()
        .filter(|(path, text)| !path.ends_with("tests.rs") && !text.starts_with("//!"))
        .map(|(path, _)| path)
        .collect();
    assert!(silent.is_empty(), "no module header: {}", silent.join(", "));
}

#[test]
fn no_test_file_is_forgotten() {
    let main = fs::read_to_string(root().join("tests/it/main.rs")).unwrap();
    for path in rust_files(&["tests/it"]).keys() {
        let inner = path.strip_prefix("tests/it/").unwrap();
        if let Some(name) = inner.strip_suffix(".rs").filter(|name| !name.contains('/')) {
            let mounted = name == "main" || main.contains(&format!("mod {name};"));
            assert!(mounted, "{path} is not a module of tests/it/main.rs");
        }
    }
}

#[test]
fn nothing_is_promised_and_left_undone() {
    let words = ["TO".to_owned() + "DO", "FIX".to_owned() + "ME", "un".to_owned() + "implemented!"];
    for (path, text) in rust_files(&["host", "sdk-guest", "formulas", "tests", "examples"]) {
        for word in &words {
            assert!(!text.contains(word.as_str()), "{path} says {word}");
        }
    }
}

#[test]
fn the_top_level_is_the_agreed_one() {
    let agreed = [
        "Cargo.toml",
        "Cargo.lock",
        "LICENSE",
        "README.md",
        "examples",
        "formulas",
        "host",
        "sdk-guest",
        "tests",
        "wit",
        "target",
    ];
    for entry in fs::read_dir(root()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name.starts_with('.') || agreed.contains(&name.as_str()), "{name}");
    }
}
