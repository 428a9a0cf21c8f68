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
use crate::limits::PAGE_SIZE_MAX;

const CARD_INSIGHTS: &str = "card-insights";
/// A script of the usual kind.
const SCRIPT: &str = "module.exports = async function (req) {
  const { card, second, third } = req.args;
  const digits = card.number.replace(/[^0-9]/g, '');
  const expires = `${String(second).padStart(2, '0')}/${Number(third) % 100}`;
  return { raw: { last4: digits.slice(-4), expires } };
};
";
/// What fills the store, and empties it.
const UNTIL_DONE: Load = Load { connections: 64, time: Duration::from_hours(24) };
/// Tokens that are never deleted.
const LEFT: u64 = 100;
/// Tokens of one value of metadata, at least: as many as a page has unless it is asked for more.
const LISTED: u64 = 20;
/// Values that are given in turns, so that tokens of one value are no neighbours in the store.
const IN_TURNS: u64 = 5;
/// How the `kind` of tokens begins that are created to see how fast that goes.
const CREATED: &str = "created";
/// Values of metadata, at most.
const GROUPS_MAX: u64 = 1_000;

/// A piece of work. They are measured in this order: those that add tokens and remove them come last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Work {
    /// The yardstick: a bare handler echoes JSON.
    Echo,
    /// A token is read, masked.
    Get,
    /// Twenty tokens of one value of metadata.
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
    /// A card is stored.
    Create,
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
    /// The id of the application that does the work, and its key.
    application: String,
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
        let id = text(&application["id"]);
        let prefix = id.chars().take(13).collect();
        Ok(Self {
            application: id,
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
        if first >= size {
            return Ok(());
        }
        let own = Arc::clone(self);
        let stored = drive(target.address, UNTIL_DONE, move |number| {
            let number = first + number;
            (number < size).then(|| own.post("/tokens", &own.card(number, true)))
        });
        if let Some(reason) = stored.await?.reason {
            return Err(format!("filling the store: {reason}").into());
        }
        *lock(&self.live) = size;
        Ok(())
    }

    /// Removes what was created, whose ids the server drew: what is measured next finds as many tokens as before.
    pub async fn remove_created(self: &Arc<Self>, target: &Target) -> Result<(), Failure> {
        let kind = self.kind_of_created();
        let mut ids: Vec<String> = Vec::new();
        let mut start = String::new();
        loop {
            let path = format!("/tokens?metadata.kind={kind}&size={PAGE_SIZE_MAX}{start}");
            let answer = target.answer(self.get(&path)).await?;
            let answer: Value = serde_json::from_slice(&answer)?;
            ids.extend(self.own_among(&answer));
            let Some(next) = answer["pagination"]["next"].as_str() else { break };
            start = format!("&start={next}");
        }
        let (own, created) = (Arc::clone(self), ids.len() as u64);
        let removed = drive(target.address, UNTIL_DONE, move |number| {
            Some(own.delete(ids.get(usize::try_from(number).ok()?)?))
        });
        let removed = removed.await?;
        if removed.done < created {
            let reason = removed.reason.unwrap_or_default();
            return Err(format!("removing what was created: {reason}").into());
        }
        Ok(())
    }

    /// The request of this number; `None` when there is nothing more to do.
    pub fn request(&self, work: Work, number: u64) -> Option<Request<Full<Bytes>>> {
        let live = *lock(&self.live);
        // Neighbours in time are no neighbours in the store.
        let some = number.wrapping_mul(7_919) % live;
        let group = number % groups(live);
        Some(match work {
            Work::Echo => self.post("/echo", &self.card(number, false)),
            Work::Create => self.post("/tokens", &self.created(number)),
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
                let last = *live;
                drop(live);
                self.delete(&self.id(last))
            }
        })
    }

    /// How many bytes the body of a create has.
    pub fn bytes_of_a_create(&self) -> usize {
        self.created(1_000_000).to_string().len()
    }

    fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.prefix)
    }

    fn card(&self, number: u64, named: bool) -> Value {
        let mut card = json!({
            "type": "card",
            "data": {"number": "4242424242424242", "expiration_month": number % 12 + 1,
                "expiration_year": 2060},
            "metadata": {"group": group_of(number).to_string(), "kind": "benchmark"},
            "containers": [format!("/pci/high/{}/", number % 10)],
        });
        if named {
            card["id"] = json!(self.id(number));
        }
        card
    }

    fn created(&self, number: u64) -> Value {
        let mut card = self.card(number, false);
        card["metadata"]["kind"] = json!(self.kind_of_created());
        card
    }

    /// No other benchmark's, and nothing that people call theirs: it is what is found to be removed.
    fn kind_of_created(&self) -> String {
        format!("{CREATED}-{}", self.prefix)
    }

    /// Ids of the tokens of a page that this application made. The server may hold others' tokens, which a value of
    /// metadata alone must not erase.
    fn own_among(&self, page: &Value) -> Vec<String> {
        let tokens = page["data"].as_array().map(Vec::as_slice).unwrap_or_default().iter();
        let own = tokens.filter(|token| token["created_by"] == self.application.as_str());
        own.filter_map(|token| token["id"].as_str().map(str::to_owned)).collect()
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

    fn delete(&self, id: &str) -> Request<Full<Bytes>> {
        let path = format!("/tokens/{id}");
        self.build(Method::DELETE, &path, "application/json", None)
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

/// The value of metadata of a token: of each further hundred tokens, there are twenty of each of five further values, until
/// there are as many values as there may be, and then the first ones again.
fn group_of(number: u64) -> u64 {
    (number / (LISTED * IN_TURNS) * IN_TURNS + number % IN_TURNS) % GROUPS_MAX
}

/// How many of the values have their twenty tokens, where there are so many tokens.
fn groups(live: u64) -> u64 {
    (live / (LISTED * IN_TURNS) * IN_TURNS).clamp(1, GROUPS_MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::{GROUPS_MAX, LISTED, Mutex, Site, Work, group_of, groups};

    fn site(application: &str, prefix: &str) -> Site {
        Site {
            application: application.to_owned(),
            key: String::new(),
            react: String::new(),
            script: String::new(),
            callback: String::new(),
            host: String::new(),
            live: Mutex::new(0),
            prefix: prefix.to_owned(),
        }
    }

    #[test]
    fn only_what_this_benchmark_created_is_removed() {
        let [one, other] = ["one", "other"].map(|name| site(name, name));
        let kind = |site: &Site| site.created(1)["metadata"]["kind"].clone();
        assert_eq!(kind(&one), one.kind_of_created());
        assert_ne!(kind(&one), kind(&other));
        let page = json!({"data": [
            {"id": "a", "created_by": "one"},
            {"id": "b", "created_by": "other"},
            {"id": "c"},
            {"id": "d", "created_by": null},
            {"id": "e", "created_by": "one"},
        ]});
        assert_eq!(one.own_among(&page), ["a", "e"]);
        assert_eq!(other.own_among(&page), ["b"]);
        assert!(one.own_among(&json!({})).is_empty());
    }

    #[test]
    fn there_are_twenty_tokens_of_each_value_that_is_asked_for() {
        for (live, expected) in
            [(100, 5), (199, 5), (1_000, 50), (2_050, 100), (10_000, 500), (20_000, 1_000)]
        {
            assert_eq!(groups(live), expected, "{live}");
        }
        for live in [100, 199, 1_000, 2_050, 19_999, 20_000, 20_150, 45_678] {
            let mut tokens = BTreeMap::new();
            for number in 0..live {
                *tokens.entry(group_of(number)).or_insert(0) += 1;
            }
            assert!(groups(live) <= GROUPS_MAX);
            for group in 0..groups(live) {
                assert!(tokens[&group] >= LISTED, "{live}: {} of {group}", tokens[&group]);
            }
        }
    }

    #[test]
    fn what_adds_tokens_and_removes_them_is_measured_last() {
        let works = Work::chosen(&[]);
        assert_eq!(works[works.len() - 2..], [Work::Create, Work::Delete]);
        assert_eq!(Work::chosen(&[Work::Create, Work::List]), [Work::List, Work::Create]);
    }
}
