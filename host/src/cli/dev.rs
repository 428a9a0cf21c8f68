//! `tokamak dev`: everything on one machine, to try it out (decisions §9).
//!
//! Data, root key and API keys are kept in one folder, readable by its owner only. A second start finds them there. The keys
//! may have ended meanwhile, since the applications that they are of can be changed as any other: that is told, and is no
//! reason not to serve.

use std::fmt::{Display, Write as _};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::open::{self, ForAuthor};
use super::output::warn;
use super::stop::Stop;
use super::{Failure, confine, disk, folder, logging, root_key, say, serve};
use crate::config::{Options, RootKeySource, parse_address, variables_given};
use crate::crypto::api_key::ApiKey;
use crate::crypto::entropy::SystemEntropy;
use crate::crypto::keys::RootKey;
use crate::model::faults::Faults;
use crate::model::member;
use crate::model::permission::ApplicationType;
use crate::model::permission::marker::{ReactorCreate, ReactorRead};
use crate::runtime::close_to_others;
use crate::vault::{Authenticated, PageRequest, ReactorFilter, Vault};

const DEMO_REACTOR: &str = "demo: card insights";
const DEMO_FORMULA: &str = "card-insights";
/// What is printed in the place of a key or a reactor that is not to be had.
const NONE: &str = "none (standard error tells why)";

/// Options of `dev`.
#[derive(Debug, Args)]
pub struct DevOptions {
    /// The folder that holds data and keys.
    #[arg(long, default_value = ".tokamak", value_name = "FOLDER")]
    data_dir: PathBuf,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "IP:PORT", value_parser = parse_address)]
    listen: SocketAddr,
    /// Which log lines are written.
    #[arg(long, default_value = "warn", value_name = "FILTER")]
    log: String,
}

/// The keys of a development vault, kept in clear beside its data.
#[derive(Serialize, Deserialize)]
struct DevKeys {
    management_key: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    private_key: Option<String>,
}

/// What works of it, and what there is to try out.
struct Ready {
    management_key: Option<String>,
    private_key: Option<String>,
    reactor_id: Option<String>,
}

/// Runs a development server.
pub fn run(options: &DevOptions) -> Result<(), Failure> {
    let folder = &options.data_dir;
    // Before anything is made: who finds the address taken may want another folder as well.
    let listener = TcpListener::bind(options.listen)
        .map_err(|error| serve::not_to_be_had(options.listen, &error))?;
    listener.set_nonblocking(true)?;
    folder::keep_to_ourselves();
    open::make_folder(folder)?;
    folder::refuse_unrestored(folder)?;
    let settings = Options {
        data_dir: Some(folder.clone()),
        listen: Some(options.listen),
        log: Some(options.log.clone()),
        // What formulas and callbacks are tried out against is on this machine.
        allow_private_networks: Some(true),
        allow_http_callbacks: Some(true),
        ..Options::default()
    };
    let settings = settings.settle()?;
    let variables = variables_given();
    if !variables.is_empty() {
        // Those of a server that is set up are not meant: their folder least of all.
        warn(format_args!(
            "dev takes no option from the environment: {} {} not heeded; it has --data-dir, --listen and --log",
            variables.join(", "),
            if variables.len() == 1 { "is" } else { "are" }
        ));
    }
    let traces = logging::start_with_traces(&settings)?;
    close_to_others()?;
    confine::confine(&settings)?;
    logging::write_apart()?;
    let root_key = folder.join("root-key");
    // A new key would open nothing, and stand in the place of the one that does.
    if !root_key.exists() && folder::holds_store(&folder.join("store")).unwrap_or(false) {
        let message = format!(
            "{} is missing, and nothing else opens the store beside it: put it back, or name another --data-dir",
            root_key.display()
        );
        return Err(message.into());
    }
    let root_key = keep_root_key(&root_key)?;
    let serves = async {
        let (store, author) = (folder.join("store"), ForAuthor::default());
        let vault = open::open_for_author(&store, &settings, root_key, author).await?;
        let ready = keep(&vault, &folder.join("keys.json")).await?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let listening = |address| welcome(address, &ready);
        serve::serve(&settings, (listener, Stop::begin_with_terminal()?), vault, None, listening)
            .await
    };
    let ended = serve::traced(&settings, traces, || serve::block_on(serves));
    ended.map_err(|error| disk::about(error, folder))
}

/// Reads the root key, which is nobody else's to read, or draws one and writes it for its owner alone.
pub(super) fn keep_root_key(path: &Path) -> Result<RootKey, Failure> {
    if path.exists() {
        return root_key::read(&RootKeySource::File(path.to_owned()));
    }
    let key = RootKey::draw(&SystemEntropy::new()?);
    write_private(path, key.to_base64().as_bytes())?;
    Ok(key)
}

/// Finds what the folder keeps, or makes it. What has ended meanwhile is told of, and not shown.
async fn keep(vault: &Vault, path: &Path) -> Result<Ready, Failure> {
    let mut keys = keep_keys(vault, path).await?;
    let manager = holder(vault, Some(&keys.management_key)).await?;
    keep_private_key(vault, manager.as_ref(), &mut keys, path).await?;
    let Some(manager) = manager else {
        warn(format_args!(
            "{}: management_key does not work: put one there that does, such as the new one of its application, and \
            start again",
            path.display()
        ));
        return Ok(Ready { management_key: None, private_key: keys.private_key, reactor_id: None });
    };
    let reactor_id = keep_reactor(vault, &manager).await.inspect_err(|error| {
        warn(format_args!("no reactor to try out can be found or made: {error}"));
    });
    let (management_key, private_key) = (Some(keys.management_key), keys.private_key);
    Ok(Ready { management_key, private_key, reactor_id: reactor_id.ok() })
}

/// Reads the API keys, or makes the first tenant. The management key is written before it is made, so that no crash leaves
/// a vault that nobody can enter. Where there is a tenant already, and the file is lost, it gets another one.
async fn keep_keys(vault: &Vault, path: &Path) -> Result<DevKeys, Failure> {
    let keys = if path.exists() {
        let named = |error: &dyn Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| named(&error))?;
        serde_json::from_str(&text).map_err(|error| named(&error))?
    } else if let [only] = &vault.tenants().await?[..] {
        let key =
            vault.issue_application(only.id, ApplicationType::Management, "Development").await?;
        warn(format_args!(
            "{} was missing: the keys in it now are new ones, of new applications",
            path.display()
        ));
        DevKeys { management_key: key.expose().to_owned(), private_key: None }
    } else {
        let tag = ApplicationType::Management.key_tag();
        let key = ApiKey::draw(tag, &SystemEntropy::new()?);
        DevKeys { management_key: key.expose().to_owned(), private_key: None }
    };
    write_private(path, &serde_json::to_vec_pretty(&keys)?)?;
    vault.with_a_tenant(Some(ApiKey::given(keys.management_key.clone()))).await?;
    Ok(keys)
}

/// Sees to it that there is a private key, and that it works. None is made where nobody can tell for which tenant.
async fn keep_private_key(
    vault: &Vault,
    manager: Option<&Authenticated>,
    keys: &mut DevKeys,
    path: &Path,
) -> Result<(), Failure> {
    if holder(vault, keys.private_key.as_deref()).await?.is_some() {
        return Ok(());
    }
    let (ended, file) = (keys.private_key.take().is_some(), path.display());
    let tenant = match (manager, &vault.tenants().await?[..]) {
        (Some(manager), _) => manager.caller().tenant(),
        (None, [only]) => only.id,
        (None, _) => {
            warn(format_args!(
                "{file}: without a management_key that works, no private_key is made"
            ));
            return Ok(());
        }
    };
    let key = vault.issue_application(tenant, ApplicationType::Private, "Development").await?;
    keys.private_key = Some(key.expose().to_owned());
    write_private(path, &serde_json::to_vec_pretty(&keys)?)?;
    if ended {
        warn(format_args!(
            "{file}: private_key had ended, and a new one is in its place, of a new application"
        ));
    }
    Ok(())
}

/// Whom a key is of; nobody once it has ended.
async fn holder(vault: &Vault, key: Option<&str>) -> Result<Option<Authenticated>, Failure> {
    let Some(key) = key else { return Ok(None) };
    match vault.holder_of(Some(ApiKey::given(key.to_owned()))).await {
        Ok(holder) => Ok(Some(holder)),
        Err(error) if error.is_unauthenticated() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Finds the reactor that the commands to paste run, or makes it.
async fn keep_reactor(vault: &Vault, who: &Authenticated) -> Result<String, Failure> {
    let (page, read) = (PageRequest::first(), vault.permit::<ReactorRead>(who, None).await?);
    let named = ReactorFilter { name: Some(DEMO_REACTOR.to_owned()), ..ReactorFilter::default() };
    let found = vault.list_reactors(&read, named, &page).await?;
    if let Some(reactor) = found.data.first() {
        return Ok(reactor.id().to_string());
    }
    let formulas = vault.list_formulas(&read, Vec::new(), Some(DEMO_FORMULA), &page).await?;
    let formula = formulas.data.first().ok_or("the formula for the demonstration is missing")?;
    let body = json!({
        "name": DEMO_REACTOR,
        "configuration": {},
        "formula": {"id": formula.id},
    });
    let body = member::read(body).map_err(|faults: Faults| faults.to_string())?;
    let create = vault.permit::<ReactorCreate>(who, None).await?;
    Ok(vault.create_reactor(&create, body).await?.id().to_string())
}

/// Writes a file that only its owner may read, whole or not at all.
fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let beside = path.with_extension("new");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(())
}

fn welcome(address: SocketAddr, ready: &Ready) {
    let (management, private) = (ready.management_key.as_deref(), ready.private_key.as_deref());
    let reactor = ready.reactor_id.as_deref();
    let card = r#"{"id":"my-card","type":"card","data":{"number":"4242424242424242","expiration_month":12,"expiration_year":2030,"cvc":"123"}}"#;
    let react = r#"{"args":{"card":"{{ my-card }}"}}"#;
    let json = "-H 'Content-Type: application/json'";
    let mut text = format!(
        "\
Tokamak listens on http://{address}

management key  {}
private key     {}
reactor         {}

Look at it in a browser; sign in with one key, and add the other under \"Your access\":
  http://{address}/console
",
        management.unwrap_or(NONE),
        private.unwrap_or(NONE),
        reactor.unwrap_or(NONE)
    );
    if let Some(key) = private {
        let _ = write!(
            text,
            "
Store a card:
  curl -sS http://{address}/tokens -H 'SVC-API-KEY: {key}' {json} -d '{card}'
"
        );
    }
    if let (Some(key), Some(reactor)) = (private, reactor) {
        let _ = write!(
            text,
            "
Run a formula on it:
  curl -sS http://{address}/reactors/{reactor}/react -H 'SVC-API-KEY: {key}' {json} -d '{react}'
"
        );
    }
    if let Some(key) = management {
        let _ = write!(
            text,
            "
See who did what:
  curl -sS http://{address}/logs -H 'SVC-API-KEY: {key}'
"
        );
    }
    text.push_str("\nStop with Ctrl-C; start again and everything is still there.");
    say(text);
}
