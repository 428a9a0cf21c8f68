//! What is measured, and the requests that it is made of.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use clap::ValueEnum;
use http::{Method, Request, header};
use http_body_util::Full;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::driver::{Load, drive};
use super::server::Target;
use crate::cli::Failure;

const CARD_INSIGHTS: &str = "card-insights";
/// A script of the usual kind.
const SCRIPT: &str = "module.exports = async function (req) {
  const { card, second, third } = req.args;
  const digits = card.number.replace(/[^0-9]/g, '');
  const expires = `${String(second).padStart(2, '0')}/${Number(third) % 100}`;
  return { raw: { last4: digits.slice(-4), expires } };
};
";
/// Connections that fill the store.
const FILLERS: usize = 64;
/// Tokens that are never deleted.
const LEFT: u64 = 100;

/// A piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Work {
    /// The yardstick: a bare handler echoes JSON.
    Echo,
    /// A card is stored.
    Create,
    /// A token is read, masked.
    Get,
    /// Twenty tokens of one of a thousand values of metadata.
    List,
    /// Twenty tokens by a query of three terms.
    Search,
    /// Metadata of a token is changed.
    Update,
    /// A reactor runs on three tokens.
    React,
    /// A script runs on three tokens.
    Script,
    /// A reactor runs from the queue, and its result is told.
    Asynchronous,
    /// A token is deleted.
    Delete,
}

impl Work {
    /// Those of these names, or all.
    pub fn chosen(only: &[Self]) -> Vec<Self> {
        let all = Self::value_variants().iter().copied();
        all.filter(|work| only.is_empty() || only.contains(work)).collect()
    }

    /// Its name in tables and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Create => "create",
            Self::Get => "get",
            Self::List => "list",
            Self::Search => "search",
            Self::Update => "update",
            Self::React => "react",
            Self::Script => "script",
            Self::Asynchronous => "asynchronous",
            Self::Delete => "delete",
        }
    }

    /// Who does it.
    pub fn address(self, server: SocketAddr, yardstick: SocketAddr) -> SocketAddr {
        if self == Self::Echo { yardstick } else { server }
    }
}

/// What was set up in the server.
pub struct Site {
    key: String,
    react: String,
    script: String,
    callback: String,
    host: String,
    /// How many tokens of known ids are there: those of the numbers below.
    live: Mutex<u64>,
    prefix: String,
}

impl Site {
    /// Makes an application and a reactor.
    pub async fn set_up(target: &Target, receiver: SocketAddr) -> Result<Self, Failure> {
        let permissions = ["create", "read", "update", "delete", "search", "use"];
        let permissions = permissions.map(|action| format!("token:{action}"));
        let body = json!({"name": "benchmark", "type": "private", "permissions": permissions});
        let application = target.manage(Method::POST, "/applications", Some(&body)).await?;
        let path = format!("/reactor-formulas?name={CARD_INSIGHTS}");
        let formulas = target.manage(Method::GET, &path, None).await?;
        let script = json!({"name": "benchmark", "code": SCRIPT});
        let script = target.manage(Method::POST, "/reactor-formulas", Some(&script)).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let react = async |formula: &Value| -> Result<String, Failure> {
            let body =
                json!({"name": "benchmark", "formula": {"id": formula}, "configuration": {}});
            let reactor = target.manage(Method::POST, "/reactors", Some(&body)).await?;
            Ok(format!("/reactors/{}/react", text(&reactor["id"])))
        };
        // Ids of another benchmark of the same server are others.
        let prefix = text(&application["id"]).chars().take(13).collect();
        Ok(Self {
            key: text(&application["key"]),
            react: react(&formulas["data"][0]["id"]).await?,
            script: react(&script["id"]).await?,
            callback: format!("http://{receiver}/hook"),
            host: target.address.to_string(),
            live: Mutex::new(0),
            prefix,
        })
    }

    /// Stores cards until there are so many.
    pub async fn fill(self: &Arc<Self>, target: &Target, size: u64) -> Result<(), Failure> {
        let first = *lock(&self.live);
        let time = Duration::from_hours(24);
        let load = Load { connections: FILLERS, time };
        let own = Arc::clone(self);
        let driven = drive(target.address, load, move |number| {
            let number = first + number;
            (number < size).then(|| own.post("/tokens", &own.card(number, true)))
        })
        .await?;
        if let Some(reason) = driven.reason {
            return Err(format!("filling the store: {reason}").into());
        }
        *lock(&self.live) = size.max(first);
        Ok(())
    }

    /// The request of this number; `None` when there is nothing more to do.
    pub fn request(&self, work: Work, number: u64) -> Option<Request<Full<Bytes>>> {
        let live = *lock(&self.live);
        // Neighbours in time are no neighbours in the store.
        let some = number.wrapping_mul(7_919) % live;
        let group = number % 1_000;
        Some(match work {
            Work::Echo => self.post("/echo", &self.card(number, false)),
            Work::Create => self.post("/tokens", &self.card(number, false)),
            Work::Get => self.get(&format!("/tokens/{}", self.id(some))),
            Work::List => self.get(&format!("/tokens?metadata.group={group}")),
            Work::Search => {
                let query =
                    format!("type:card AND metadata.group:{group} AND NOT metadata.kind:none");
                self.post("/tokens/search", &json!({"query": query}))
            }
            Work::Update => {
                let path = format!("/tokens/{}", self.id(some));
                let body = json!({"metadata": {"changed": number.to_string()}});
                self.build(Method::PATCH, &path, "application/merge-patch+json", Some(&body))
            }
            Work::React => self.post(&self.react, &self.arguments(some, live)),
            Work::Script => self.post(&self.script, &self.arguments(some, live)),
            Work::Asynchronous => {
                let mut body = self.arguments(some, live);
                body["callback_url"] = json!(self.callback);
                self.post(&self.react, &body)
            }
            Work::Delete => {
                let mut live = lock(&self.live);
                // Some are left for whatever is measured next.
                if *live <= LEFT {
                    return None;
                }
                *live -= 1;
                let id = self.id(*live);
                drop(live);
                self.build(Method::DELETE, &format!("/tokens/{id}"), "application/json", None)
            }
        })
    }

    /// How many bytes the body of a create has.
    pub fn bytes_of_a_create(&self) -> usize {
        self.card(1_000_000, false).to_string().len()
    }

    fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.prefix)
    }

    fn card(&self, number: u64, named: bool) -> Value {
        let mut card = json!({
            "type": "card",
            "data": {"number": "4242424242424242", "expiration_month": number % 12 + 1,
                "expiration_year": 2060},
            "metadata": {"group": (number % 1_000).to_string(), "kind": "benchmark"},
            "containers": [format!("/pci/high/{}/", number % 10)],
        });
        if named {
            card["id"] = json!(self.id(number));
        }
        card
    }

    fn arguments(&self, some: u64, live: u64) -> Value {
        let of = |offset: u64| self.id((some + offset) % live);
        json!({"args": {
            "card": format!("{{{{ {} }}}}", of(0)),
            "second": format!("{{{{ token: {} | json: '$.data.expiration_month' }}}}", of(1)),
            "third": format!("{{{{ token: {} | json: '$.data.expiration_year' }}}}", of(2)),
        }})
    }

    fn get(&self, path: &str) -> Request<Full<Bytes>> {
        self.build(Method::GET, path, "application/json", None)
    }

    fn post(&self, path: &str, body: &Value) -> Request<Full<Bytes>> {
        self.build(Method::POST, path, "application/json", Some(body))
    }

    fn build(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Request<Full<Bytes>> {
        let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.host)
            .header(header::CONTENT_TYPE, content_type)
            .header("SVC-API-KEY", &self.key);
        // Every part is our own and fits.
        request.body(Full::new(body)).unwrap_or_default()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
