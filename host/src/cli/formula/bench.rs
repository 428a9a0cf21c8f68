//! A vault for trying out a formula: the server's own code on an empty store that is thrown away.
//!
//! Each trial has a tenant of its own, so that no case sees another's tokens. What was compiled once is kept in the
//! project's folder, under a key of its own.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::super::open::{self, ForAuthor};
use super::super::{Failure, dev};
use super::project::{Code, Project};
use super::report::Problem;
use super::stand_ins::{Exchange, StandIns};
use crate::config::Options;
use crate::model::faults::Faults;
use crate::model::id::ApplicationId;
use crate::model::member;
use crate::model::permission::ApplicationType;
use crate::model::permission::marker::{
    ApplicationCreate, ReactorCreate, ReactorRead, TokenCreate, TokenUse,
};
use crate::vault::{
    Authenticated, Error, FormulaView, InvocationView, PageRequest, Reacted, Vault,
};

/// Memory of the store's cache, in MiB: it holds a few tokens.
const CACHE_MB: u64 = 8;
/// Slots of the sandbox. One run goes on at a time, but what a slot has room for is counted over all of them, and
/// components of some toolchains are made of dozens of parts.
const SLOTS: u32 = 64;

/// A vault that lives as long as this.
pub struct Bench {
    vault: Vault,
    stand_ins: Arc<StandIns>,
    _store: TempDir,
}

/// One run of a formula, as it is asked for.
#[derive(Debug, Clone, Default)]
pub struct Trial {
    /// The body of the request.
    pub request: Map<String, Value>,
    /// The reactor's configuration.
    pub configuration: Map<String, Value>,
    /// Tokens that are there, by their ids: bodies of `POST /tokens`, or data alone.
    pub tokens: Map<String, Value>,
    /// What stands behind `svc`.
    pub svc: Svc,
    /// What other hosts answer, if they are not asked.
    pub http: Option<Vec<Exchange>>,
}

/// The application of the reactor that is tried out.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Svc {
    /// It has all permissions of a private one.
    #[default]
    Whole,
    /// It has these: `permissions` and `rules`, as in the body of `POST /applications`.
    With(Map<String, Value>),
    /// There is none.
    Absent,
}

/// What came of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Ran {
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
    /// How it went, if it came to a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invocation: Option<InvocationView>,
    /// Whether the reactor was asked: what went wrong before is no answer of the formula's.
    #[serde(skip)]
    pub is_asked: bool,
    /// Where what it sent to other hosts differs from what was said of them.
    #[serde(skip)]
    pub sent: Vec<String>,
}

impl Bench {
    /// Opens an empty vault for a project, in which runs have this time, or what they have on a server that waits for them.
    pub async fn open(project: &Project, timeout_ms: Option<u64>) -> Result<Self, Failure> {
        crate::runtime::log_uncaught_in_words();
        let data_dir = project.kept();
        open::make_folder(&data_dir)?;
        let root_key = dev::keep_root_key(&data_dir.join("formula-key"))?;
        let store = TempDir::with_prefix("tokamak-formula-")?;
        let settings = Options {
            data_dir: Some(data_dir),
            cache_mb: Some(CACHE_MB),
            reactor_slots: Some(SLOTS),
            // What a formula is tried out against is on this machine.
            allow_private_networks: Some(true),
            allow_http_callbacks: Some(true),
            ..Options::default()
        };
        let settings = settings.settle()?;
        let store_folder = store.path().join("store");
        let stand_ins = Arc::new(StandIns::default());
        let author = ForAuthor { timeout_ms, stand_in: Some(Arc::clone(&stand_ins) as _) };
        let vault = open::open_for_author(&store_folder, &settings, root_key, author).await?;
        vault.bootstrap(None).await?;
        Ok(Self { vault, stand_ins, _store: store })
    }

    /// Ends it.
    pub fn close(self) {
        self.vault.close();
    }

    /// What the server says of a formula: the formula, or why it is refused.
    pub async fn check(&self, project: &Project, code: &Code) -> Result<FormulaView, Problem> {
        let place = Place::make(&self.vault).await?;
        place.formula(project.body(code)).await.map_err(Problem::from)
    }

    /// Runs a formula once. One after the other: what stands in for other hosts does so for one run.
    pub async fn run(&self, project: &Project, code: &Code, mut trial: Trial) -> Ran {
        let failed = |error: Error| Ran {
            response: None,
            error: Some(Problem::from(error)),
            invocation: None,
            is_asked: false,
            sent: Vec::new(),
        };
        self.stand_ins.begin(trial.http.take());
        let ran = self.try_run(project.body(code), trial).await;
        let sent = self.stand_ins.end();
        match ran {
            Ok(ran) => Ran { sent, ..ran },
            // What was not sent is not to be told of what was not asked.
            Err(error) => failed(error),
        }
    }

    async fn try_run(&self, body: Value, trial: Trial) -> Result<Ran, Error> {
        let place = Place::make(&self.vault).await?;
        let formula = place.formula(body).await?;
        for (id, token) in trial.tokens {
            place.token(&id, token).await?;
        }
        let mut reactor = json!({
            "name": "trial",
            "formula": { "id": formula.id },
            "configuration": trial.configuration,
        });
        let application = match trial.svc {
            Svc::Whole => Some(place.application.caller().application.id),
            Svc::With(rights) => Some(place.application(rights).await?),
            Svc::Absent => None,
        };
        if let Some(id) = application {
            reactor["application"] = json!({ "id": id });
        }
        let permit = self.vault.permit::<ReactorCreate>(&place.management, None).await?;
        let reactor = self.vault.create_reactor(&permit, member::read(reactor)?).await?.id();
        let permit = self.vault.permit::<TokenUse>(&place.application, None).await?;
        let answer = match member::read(Value::Object(trial.request)) {
            Ok(request) => match self.vault.react(&permit, reactor, request).await {
                Ok(Reacted::Answered(answer)) => {
                    serde_json::to_value(answer).map_err(Error::internal)
                }
                Ok(Reacted::Queued(_)) => {
                    let reason = "is not for trying out: runs are waited for";
                    Err(Error::invalid("callback_url", reason))
                }
                Err(failed) => Err(failed.error),
            },
            Err(error) => Err(error.into()),
        };
        let permit = self.vault.permit::<ReactorRead>(&place.management, None).await?;
        let page = PageRequest::first();
        let runs = self.vault.list_invocations(&permit, reactor, &page).await?;
        let (response, error) = match answer {
            Ok(response) => (Some(response), None),
            Err(error) => (None, Some(Problem::from(error))),
        };
        let invocation = runs.data.into_iter().next();
        Ok(Ran { response, error, invocation, is_asked: true, sent: Vec::new() })
    }
}

/// A tenant with its two applications.
struct Place<'v> {
    vault: &'v Vault,
    management: Authenticated,
    application: Authenticated,
}

impl<'v> Place<'v> {
    async fn make(vault: &'v Vault) -> Result<Self, Error> {
        let made = vault.create_tenant("Trial", None).await?;
        let private = ApplicationType::Private;
        let key = vault.issue_application(made.tenant.id, private, "Trial").await?;
        let management = vault.authenticate(Some(made.management_key)).await?;
        let application = vault.authenticate(Some(key)).await?;
        Ok(Self { vault, management, application })
    }

    async fn formula(&self, body: Value) -> Result<FormulaView, Error> {
        let permit = self.vault.permit::<ReactorCreate>(&self.management, None).await?;
        self.vault.create_formula(&permit, member::read(body)?).await
    }

    async fn application(&self, rights: Map<String, Value>) -> Result<ApplicationId, Error> {
        let mut body = Value::Object(rights);
        (body["name"], body["type"]) = ("svc".into(), "private".into());
        let permit = self.vault.permit::<ApplicationCreate>(&self.management, None).await?;
        let made = self.vault.create_application(&permit, member::read(body)?).await;
        Ok(made.map_err(|error| under("svc", error))?.application.id)
    }

    async fn token(&self, id: &str, token: Value) -> Result<(), Error> {
        let is_body = token.get("type").is_some() && token.get("data").is_some();
        let mut body = if is_body { token } else { json!({ "type": "token", "data": token }) };
        body["id"] = id.into();
        let permit = self.vault.permit::<TokenCreate>(&self.application, None).await?;
        let made = self.vault.create_token(&permit, member::read(body)?).await;
        made.map(drop).map_err(|error| under(&format!("tokens.{id}"), error))
    }
}

/// What is wrong with a body, told of where that stands in a case.
fn under(place: &str, error: Error) -> Error {
    match error {
        Error::Invalid(inner) => {
            let mut faults = Faults::new();
            faults.extend_under(place, inner);
            Error::Invalid(faults)
        }
        error => error,
    }
}
