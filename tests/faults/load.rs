//! Mixed load: tokens are made, changed and deleted, runs are queued, until the server is gone or it is enough.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use reqwest::Method;
use serde_json::{Value, json};

use crate::Client;
use crate::fates::Moment;
use crate::options::Dice;
use crate::site::{Site, ask};

/// Tokens of a client's that it changes.
const HELD_MAX: usize = 40;

/// Where moments are told.
pub type Tell = Arc<dyn Fn(Moment<'_>) + Send + Sync>;

/// What all clients of a load share.
#[derive(Clone)]
pub struct Load {
    pub site: Site,
    pub tell: Tell,
    pub stop: Arc<AtomicBool>,
    /// Where results are told to.
    pub callback: String,
    /// Ids are never used twice.
    pub next: Arc<AtomicU64>,
}

struct Held {
    id: String,
    number: u64,
}

impl Load {
    /// One client's part.
    pub async fn run(self, client: Client, mut dice: Dice) {
        let mut held: Vec<Held> = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            let done = match dice.below(10) {
                0..4 => self.create(&client, &mut held, &mut dice).await,
                4..7 if !held.is_empty() => self.change(&client, &mut held, &mut dice).await,
                7 if held.len() > 5 || held.len() >= HELD_MAX => {
                    self.delete(&client, &mut held, &mut dice).await
                }
                8 => self.react(&client).await,
                _ => continue,
            };
            if done.is_none() {
                return;
            }
        }
    }

    /// Contents of a size that is in one row of the store, or in several.
    fn body(number: u64, dice: &mut Dice) -> Value {
        let length = [40, 700, 6_000, 40_000][dice.below(40).saturating_sub(36)];
        json!({"number": number, "filler": "f".repeat(length)})
    }

    async fn create(&self, client: &Client, held: &mut Vec<Held>, dice: &mut Dice) -> Option<()> {
        let id = format!("load-{}", self.next.fetch_add(1, Ordering::Relaxed));
        (self.tell)(Moment::Asked(&id, 1));
        let body = json!({"id": id, "type": "token", "data": Self::body(1, dice),
            "metadata": {"part": id}, "search_indexes": ["{{ data.number }}"]});
        ask(client, Method::POST, "/tokens", &body).await?;
        (self.tell)(Moment::Kept(&id, 1));
        held.push(Held { id, number: 1 });
        if held.len() > HELD_MAX {
            held.remove(0);
        }
        Some(())
    }

    async fn change(&self, client: &Client, held: &mut [Held], dice: &mut Dice) -> Option<()> {
        let one = dice.below(held.len());
        let one = &mut held[one];
        one.number += 1;
        (self.tell)(Moment::Asked(&one.id, one.number));
        let body = json!({"data": Self::body(one.number, dice)});
        ask(client, Method::PATCH, &format!("/tokens/{}", one.id), &body).await?;
        (self.tell)(Moment::Kept(&one.id, one.number));
        Some(())
    }

    async fn delete(&self, client: &Client, held: &mut Vec<Held>, dice: &mut Dice) -> Option<()> {
        let one = held.swap_remove(dice.below(held.len()));
        (self.tell)(Moment::Deleting(&one.id));
        ask(client, Method::DELETE, &format!("/tokens/{}", one.id), &Value::Null).await?;
        (self.tell)(Moment::Deleted(&one.id));
        Some(())
    }

    async fn react(&self, client: &Client) -> Option<()> {
        let card =
            json!({"number": "4242424242424242", "expiration_month": 1, "expiration_year": 2040});
        let body = json!({"args": {"card": card}, "callback_url": self.callback});
        let job = ask(client, Method::POST, &self.site.react(), &body).await?;
        (self.tell)(Moment::Accepted(job["invocation_id"].as_str().unwrap()));
        Some(())
    }
}
