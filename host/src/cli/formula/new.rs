//! `tokamak formula new`: a project that builds, with cases and a sample request.
//!
//! Nothing that is there is touched: a file in the way is an error before anything is written. To add a file: a row in
//! [`files`].

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::super::Failure;
use super::build::GO_CAUTION;
use super::project::Language;
use super::report::{BAD, DIM, GOOD, say, styled};

/// Longest name of a project, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Names that a package of Rust, or the folder of a build, cannot have.
const TAKEN: &[&str] = &[
    "alloc",
    "as",
    "async",
    "await",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "fn",
    "for",
    "formula",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "internal",
    "let",
    "loop",
    "match",
    "mod",
    "move",
    "mut",
    "pub",
    "ref",
    "return",
    "self",
    "serde",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "tokamak-sdk",
    "trait",
    "true",
    "type",
    "unsafe",
    "use",
    "where",
    "while",
];

/// Options of `formula new`.
#[derive(Debug, Args)]
pub struct NewOptions {
    /// The project's name, and its folder: small letters, digits and `-`.
    name: String,
    /// What the formula is written in.
    #[arg(long, value_enum, default_value = "rust")]
    lang: Language,
    /// Where tokamak-sdk comes from, for Rust: the folder `sdk-guest` of a checkout, or the address of a git repository
    /// [default: the checkout that this program was built in].
    #[arg(long, value_name = "PATH|URL")]
    sdk: Option<String>,
    /// The folder to make the project in.
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    within: PathBuf,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

impl NewOptions {
    /// Whether a script reads what is printed.
    pub fn json(&self) -> bool {
        self.json
    }
}

/// Writes the project.
pub fn run(options: &NewOptions) -> Result<(), Failure> {
    let NewOptions { name, lang, sdk, within, json } = options;
    check_name(name)?;
    let sdk = match lang {
        Language::Rust => sdk_of(sdk.as_deref())?,
        _ => String::new(),
    };
    let root = within.join(name);
    let files = files(*lang);
    for (path, _) in &files {
        if root.join(path).symlink_metadata().is_ok() {
            let path = root.join(path);
            return Err(format!("{} is there already; nothing was written", path.display()).into());
        }
    }
    for (path, template) in &files {
        let text = template
            .replace("@NAME@", name)
            .replace("@SDK@", &sdk)
            .replace("@LANGUAGE@", lang.as_str())
            .replace("@MEMORY@", if *lang == Language::Python { "128" } else { "16" });
        write_new(&root.join(path), &text)?;
    }
    let paths: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
    if *json {
        let project = root.display().to_string();
        let mut made = json!({ "project": project, "language": lang.as_str(), "files": paths });
        if let Some(caution) = caution(*lang) {
            made["caution"] = caution.into();
        }
        say(made);
    } else {
        show(&root, &paths, *lang);
    }
    Ok(())
}

/// What has to be known before relying on a language's template.
fn caution(language: Language) -> Option<&'static str> {
    (language == Language::Go).then_some(GO_CAUTION)
}

fn show(root: &Path, paths: &[&str], language: Language) {
    let folder = root.display();
    say(format_args!("{} {folder}", styled(GOOD, "made")));
    for path in paths {
        say(format_args!("  {path}"));
    }
    if let Some(caution) = caution(language) {
        say(format_args!("{} {caution}", styled(BAD, "caution")));
    }
    let to = quoted(&folder.to_string());
    say(format_args!(
        "{DIM}next{DIM:#}\n  cd {to}\n  tokamak formula test\n  \
        tokamak formula run --args sample.json --config limit=1000\n  \
        tokamak formula push --url http://127.0.0.1:8080 --key-file FILE   \
        {DIM}(a management key; with dev its .tokamak/keys.json){DIM:#}"
    ));
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@".contains(c);
    if path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

/// The files of a project, by their paths in it.
fn files(language: Language) -> Vec<(&'static str, &'static str)> {
    let declared = include_str!("templates/shared/declared.json.in");
    let mut files = match language {
        Language::Rust => vec![
            ("formula.json", include_str!("templates/rust/formula.json.in")),
            ("Cargo.toml", include_str!("templates/rust/Cargo.toml.in")),
            (".cargo/config.toml", include_str!("templates/rust/config.toml.in")),
            ("src/lib.rs", include_str!("templates/rust/lib.rs.in")),
        ],
        Language::Javascript => vec![
            ("formula.json", declared),
            ("formula.js", include_str!("templates/javascript/formula.js.in")),
        ],
        Language::Python => vec![
            ("formula.json", declared),
            ("formula.py", include_str!("templates/python/formula.py.in")),
        ],
        Language::Go => vec![
            ("formula.json", declared),
            ("go.mod", include_str!("templates/go/go.mod.in")),
            ("main.go", include_str!("templates/go/main.go.in")),
        ],
    };
    files.extend([
        ("cases/approves.json", include_str!("templates/shared/approves.json.in")),
        ("cases/refuses.json", include_str!("templates/shared/refuses.json.in")),
        ("sample.json", include_str!("templates/shared/sample.json.in")),
        (".gitignore", include_str!("templates/shared/gitignore.in")),
    ]);
    files
}

fn check_name(name: &str) -> Result<(), Failure> {
    let of_its_characters = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-');
    if !of_its_characters || name.len() > NAME_CHARS_MAX {
        let message = format!(
            "NAME must begin with a small letter and have at most {NAME_CHARS_MAX} small letters, digits and -"
        );
        return Err(message.into());
    }
    if TAKEN.contains(&name) {
        return Err(format!("{name} cannot be the name of a package: choose another").into());
    }
    Ok(())
}

/// The dependency as it stands in `Cargo.toml`.
fn sdk_of(given: Option<&str>) -> Result<String, Failure> {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    match given {
        Some(address) if address.contains("://") || address.starts_with("git@") => {
            Ok(format!("{{ git = {} }}", quoted(address)))
        }
        Some(path) => {
            let folder = is_sdk(Path::new(path)).ok_or_else(|| {
                format!("--sdk: there is no tokamak-sdk in {path}: name the folder sdk-guest")
            })?;
            Ok(format!("{{ path = {} }}", quoted(&folder)))
        }
        None => Ok(format!("{{ path = {} }}", quoted(&sdk_beside(&std::env::current_exe()?)?))),
    }
}

/// The SDK of the checkout that a program was built in, if that is still there.
fn sdk_beside(program: &Path) -> Result<String, Failure> {
    let found = program.ancestors().find_map(|folder| is_sdk(&folder.join("sdk-guest")));
    found.ok_or_else(|| {
        "--sdk is required, since this program lies in no checkout of Tokamak: the folder sdk-guest of one, \
        such as --sdk ../tokamak/sdk-guest, or the address of its git repository, such as \
        --sdk https://git.example.com/tokamak.git"
            .into()
    })
}

/// The folder's whole path, if tokamak-sdk is in it.
fn is_sdk(folder: &Path) -> Option<String> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    let whole = folder.canonicalize().ok()?;
    manifest.contains("name = \"tokamak-sdk\"").then(|| whole.to_str().map(str::to_owned))?
}

fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(told)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(told)?;
    Ok(file.write_all(text.as_bytes()).map_err(told)?)
}

#[cfg(test)]
mod tests {
    use super::{check_name, quoted, sdk_beside, sdk_of};
    use std::path::Path;

    #[test]
    fn a_path_is_pasted_whole() {
        for (path, shown) in [
            ("./card-check", "./card-check"),
            ("/a b/x", "'/a b/x'"),
            ("it's/x", r"'it'\''s/x'"),
            ("$HOME/x", "'$HOME/x'"),
        ] {
            assert_eq!(quoted(path), shown);
        }
    }

    #[test]
    fn names_are_those_of_packages_in_every_language() {
        for name in ["a", "card-check", "x2"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let long = "a".repeat(65);
        for name in ["", "A", "2x", "-a", "a_b", "a/b", "..", "é", "fn", "test", "formula", &long]
        {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_sdk_comes_from_a_folder_or_an_address() {
        let git = sdk_of(Some("https://example.com/tokamak.git")).unwrap();
        assert_eq!(git, r#"{ git = "https://example.com/tokamak.git" }"#);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../sdk-guest");
        let path = sdk_of(Some(folder)).unwrap();
        assert!(path.starts_with("{ path = \"/") && !path.contains(".."), "{path}");
        assert!(sdk_of(Some("/nowhere")).unwrap_err().to_string().contains("/nowhere"));
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/release/tokamak");
        assert!(sdk_beside(Path::new(program)).unwrap().ends_with("/sdk-guest"));
        let error = sdk_beside(Path::new("/nowhere/tokamak")).unwrap_err().to_string();
        assert!(error.contains("--sdk ../tokamak/sdk-guest"), "{error}");
    }
}
