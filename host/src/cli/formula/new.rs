//! `tokamak formula new`: a project that builds, with cases and a sample request.
//!
//! Nothing that is there is touched: a file in the way is an error before anything is written. To add a file: a row in
//! [`files`].

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
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
    /// [default: that of the checkout that this program lies in, or else the folder one stands in].
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
    check_name(name, *lang)?;
    let sdk = match lang {
        Language::Rust => Some(Sdk::of(sdk.as_deref())?),
        _ => None,
    };
    let dependency = sdk.as_ref().map_or_else(String::new, Sdk::dependency);
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
            .replace("@SDK@", &dependency)
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
        if let Some(Sdk::Folder(place) | Sdk::Repository(place)) = sdk {
            made["sdk"] = place.into();
        }
        say(made);
    } else {
        show(&root, &paths, *lang, sdk.as_ref());
    }
    Ok(())
}

/// What has to be known before relying on a language's template.
fn caution(language: Language) -> Option<&'static str> {
    (language == Language::Go).then_some(GO_CAUTION)
}

fn show(root: &Path, paths: &[&str], language: Language, sdk: Option<&Sdk>) {
    let folder = root.display();
    say(format_args!("{} {folder}", styled(GOOD, "made")));
    for path in paths {
        say(format_args!("  {path}"));
    }
    if let Some(Sdk::Folder(place) | Sdk::Repository(place)) = sdk {
        say(format_args!("{DIM}with tokamak-sdk of{DIM:#} {place}"));
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
            ("tokamak.d.ts", include_str!("templates/javascript/tokamak.d.ts.in")),
            ("jsconfig.json", include_str!("templates/javascript/jsconfig.json.in")),
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

fn check_name(name: &str, language: Language) -> Result<(), Failure> {
    let of_its_characters = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-');
    if !of_its_characters || name.len() > NAME_CHARS_MAX {
        let message = format!(
            "NAME must begin with a small letter and have at most {NAME_CHARS_MAX} small letters, digits and -"
        );
        return Err(message.into());
    }
    let is_package = matches!(language, Language::Rust | Language::Go);
    if is_package && TAKEN.contains(&name) {
        return Err(format!("{name} cannot be the name of a package: choose another").into());
    }
    Ok(())
}

/// Where tokamak-sdk comes from.
enum Sdk {
    /// A folder, by its whole path.
    Folder(String),
    /// A git repository, by its address.
    Repository(String),
}

impl Sdk {
    /// What is named, or else what is found.
    fn of(given: Option<&str>) -> Result<Self, Failure> {
        match given {
            Some(address) if address.contains("://") || address.starts_with("git@") => {
                Ok(Self::Repository(address.to_owned()))
            }
            Some(path) => {
                let folder = is_sdk(Path::new(path)).ok_or_else(|| {
                    format!("--sdk: there is no tokamak-sdk in {path}: name the folder sdk-guest")
                })?;
                Ok(Self::Folder(folder))
            }
            None => Self::around([&std::env::current_exe()?, &std::env::current_dir()?]),
        }
    }

    /// That of the first checkout that one of these places lies in. What others could have put there is not taken unless it
    /// is named: building a formula runs what the SDK says.
    fn around(places: [&Path; 2]) -> Result<Self, Failure> {
        let [program, stands] = places;
        let around =
            |place: &Path| place.ancestors().map(|folder| folder.join("sdk-guest")).collect();
        let (by_program, by_stands): (Vec<_>, Vec<_>) = (around(program), around(stands));
        let by_program = by_program.iter().filter(|sdk| is_safe(sdk, None));
        let owners = owners_at(stands);
        let by_stands = by_stands.iter().filter(|sdk| is_safe(sdk, Some(owners)));
        let found = by_program.chain(by_stands).find_map(|sdk| is_sdk(sdk));
        found.map(Self::Folder).ok_or_else(|| {
            "--sdk is required, since neither this program nor the folder you stand in lies in a checkout of Tokamak \
            that others cannot write to: \
            the folder sdk-guest of one, such as --sdk ../tokamak/sdk-guest, or the address of its git repository, \
            such as --sdk https://git.example.com/tokamak.git"
                .into()
        })
    }

    /// The dependency as it stands in `Cargo.toml`.
    fn dependency(&self) -> String {
        let (kind, place) = match self {
            Self::Folder(path) => ("path", path),
            Self::Repository(address) => ("git", address),
        };
        format!("{{ {kind} = {} }}", serde_json::Value::from(place.as_str()))
    }
}

/// The folder's whole path, if tokamak-sdk is in it.
fn is_sdk(folder: &Path) -> Option<String> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    let whole = folder.canonicalize().ok()?;
    manifest.contains("name = \"tokamak-sdk\"").then(|| whole.to_str().map(str::to_owned))?
}

/// Whose a checkout may be that somebody stands in: their own, and for the superuser whoever's the place is.
fn owners_at(stands: &Path) -> [u32; 2] {
    let user = rustix::process::geteuid();
    let place = fs::metadata(stands).ok().filter(|_| user.is_root());
    [user.as_raw(), place.map_or(user.as_raw(), |place| place.uid())]
}

/// Whether not everybody may write to a folder, to what it says of itself and to the folder around it, and whether all of
/// them are of one of these users. Around the program anybody's will do: who could change it could change the program.
fn is_safe(sdk: &Path, owners: Option<[u32; 2]>) -> bool {
    let is_safe = |path: &Path| {
        fs::metadata(path).is_ok_and(|found| {
            owners.is_none_or(|owners| owners.contains(&found.uid())) && found.mode() & 0o002 == 0
        })
    };
    sdk.parent().is_some_and(is_safe) && is_safe(sdk) && is_safe(&sdk.join("Cargo.toml"))
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
    use super::{Failure, Language, Sdk, check_name, quoted};
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};

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
    fn names_are_those_of_packages_where_there_are_packages() {
        let long = "a".repeat(65);
        let languages = [Language::Rust, Language::Go, Language::Javascript, Language::Python];
        for language in languages {
            for name in ["a", "card-check", "x2"] {
                assert!(check_name(name, language).is_ok(), "{name}");
            }
            for name in ["", "A", "2x", "-a", "a_b", "a/b", "..", "é", &long] {
                assert!(check_name(name, language).is_err(), "{name}");
            }
        }
        for name in ["fn", "test", "formula"] {
            let taken = languages.map(|language| check_name(name, language).is_err());
            assert_eq!(taken, [true, true, false, false], "{name}");
        }
    }

    #[test]
    fn the_sdk_comes_from_a_folder_or_an_address() {
        let git = Sdk::of(Some("https://example.com/tokamak.git")).unwrap().dependency();
        assert_eq!(git, r#"{ git = "https://example.com/tokamak.git" }"#);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../sdk-guest");
        let path = Sdk::of(Some(folder)).unwrap().dependency();
        assert!(path.starts_with("{ path = \"/") && !path.contains(".."), "{path}");
        let refused = |sdk: Result<Sdk, Failure>| sdk.err().unwrap().to_string();
        assert!(refused(Sdk::of(Some("/nowhere"))).contains("/nowhere"));
        // Beside the program, or else where somebody stands.
        let checkout = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let [program, nowhere] = [checkout.join("target/release/tokamak"), "/nowhere/x".into()];
        for places in [[&program, &nowhere], [&nowhere, &checkout.join("formulas/card-insights")]] {
            let found = Sdk::around(places.map(PathBuf::as_path)).unwrap().dependency();
            assert_eq!(found, path);
        }
        // One that everybody may write to may be anybody's.
        let shared = tempfile::tempdir().unwrap();
        let planted = shared.path().join("sdk-guest");
        fs::create_dir(&planted).unwrap();
        fs::write(planted.join("Cargo.toml"), "name = \"tokamak-sdk\"").unwrap();
        let stands = shared.path().join("work");
        let found = |mode: u32| {
            fs::set_permissions(shared.path(), Permissions::from_mode(mode)).unwrap();
            Sdk::around([&nowhere, &stands])
        };
        assert!(found(0o755).unwrap().dependency().contains("sdk-guest"));
        assert!(refused(found(0o1777)).contains("--sdk is required"));
        let error = refused(Sdk::around([&nowhere, &nowhere]));
        assert!(error.contains("--sdk ../tokamak/sdk-guest"), "{error}");
    }
}
