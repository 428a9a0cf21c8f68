//! Pages of tokens (interface §4.1, §4.2), written as their caller sees them.
//!
//! A token that is read may take dozens of times its text. So those of a page that is not small are read one after the
//! other, once for the log and once to be shown, and each is gone once it is written. What they take counts meanwhile.

use futures::future::join;
use tokio::task::yield_now;

use super::filter::Lower;
use super::{Token, TokenView};
use crate::crypto::wiped::{Wiped, WipedBuffer};
use crate::model::log::Operation;
use crate::model::permission::Grant;
use crate::model::weight;
use crate::store::Filter;
use crate::vault::page::{PageRequest, Pagination};
use crate::vault::permit::Permit;
use crate::vault::record::{Entity as _, open_text};
use crate::vault::{Error, Vault};

/// Bytes of tokens of a page that are kept once they are read, about.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A page of tokens as JSON, as its caller sees them: a `Paginated<TokenView>`.
pub struct TokenPage {
    /// How many tokens there are on all pages.
    pub total_items: u64,
    /// How many pages there are.
    pub total_pages: u64,
    text: Wiped,
}

impl AsRef<[u8]> for TokenPage {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// A page on its way.
struct Writing {
    text: WipedBuffer,
    is_begun: bool,
}

impl Writing {
    fn begin(pagination: &Pagination) -> Result<Self, Error> {
        let mut text = WipedBuffer::default();
        text.extend(br#"{"pagination":"#);
        serde_json::to_writer(&mut text, pagination).map_err(Error::internal)?;
        text.extend(br#","data":["#);
        Ok(Self { text, is_begun: false })
    }

    fn add(&mut self, token: &TokenView) -> Result<(), Error> {
        if std::mem::replace(&mut self.is_begun, true) {
            self.text.extend(b",");
        }
        serde_json::to_writer(&mut self.text, token).map_err(Error::internal)
    }

    fn end(mut self) -> Wiped {
        self.text.extend(b"]}");
        self.text.into_bytes()
    }
}

impl Vault {
    /// The page of the tokens that match a filter and that the caller may see, each with an entry of the log.
    pub(super) async fn page_of_tokens<P: Grant>(
        &self,
        permit: &Permit<P>,
        filter: Filter,
        request: &PageRequest,
        message: &str,
    ) -> Result<TokenPage, Error> {
        let tenant = permit.tenant();
        let keys = self.keys(tenant).await?;
        let visible = Lower(&keys).visible(permit.rights(), P::PERMISSION);
        let filter = Filter::And(vec![visible, filter, self.not_ended()]);
        let slice = self.read_page(Token::KIND, tenant, &filter, request.place()).await?;
        // After the records: they may be sealed with a key that is new.
        let keys = self.keys(tenant).await?;
        let sealed: usize = slice.records.iter().map(|record| record.body.len()).sum();
        let mut room = self.0.opened.share(tenant);
        let mut take_room = |written: usize, opened: usize, kept: usize| {
            // What is written moves as it grows; what is opened is shown beside it.
            room.grow_to(sealed + 3 * sealed.max(written) + 2 * opened + kept)
        };
        take_room(0, 0, 0)?;
        let now_ms = self.now().0;
        let mut events = Vec::with_capacity(slice.records.len());
        let mut visible = Vec::with_capacity(slice.records.len());
        let mut opened_bytes = 0;
        for record in &slice.records {
            let text = open_text::<Token>(record, &keys)?;
            let weight = weight::of_json(&text);
            take_room(0, weight, opened_bytes.min(KEPT_BYTES_MAX))?;
            let token = opened(&text, now_ms)?;
            // One that was moved out of sight since the store was asked is left out.
            let Some(transform) = permit.decide(token.about.subject()) else { continue };
            events.push(token.event(Operation::Read, message)?);
            opened_bytes += weight;
            let is_small = opened_bytes <= KEPT_BYTES_MAX;
            visible.push((record, is_small.then_some(token), transform));
            if !is_small {
                // Reading many of these takes long.
                yield_now().await;
            }
        }
        let is_small = opened_bytes <= KEPT_BYTES_MAX;
        let pagination = request.pagination(&slice);
        let show = async {
            let mut page = Writing::begin(&pagination)?;
            for (record, token, transform) in visible {
                let token = if let Some(token) = token {
                    token
                } else {
                    yield_now().await;
                    let text = open_text::<Token>(record, &keys)?;
                    take_room(page.text.written(), weight::of_json(&text), KEPT_BYTES_MAX)?;
                    opened(&text, now_ms)?
                };
                page.add(&self.show_last(token, transform).await?)?;
                take_room(page.text.written(), 0, 0)?;
            }
            Ok(page.end())
        };
        let log = self.log(tenant, permit.actor(), events);
        // Nothing is answered that was not logged; but it can be made ready meanwhile. Of a page that may find no room, it is
        // known first whether it does: what is refused was not read.
        let text = if is_small {
            let (logged, text) = join(log, show).await;
            logged.and(text)?
        } else {
            let text = show.await?;
            log.await?;
            text
        };
        let Pagination { total_items, total_pages, .. } = pagination;
        Ok(TokenPage { total_items, total_pages, text })
    }
}

fn opened(text: &[u8], now_ms: u64) -> Result<Token, Error> {
    let mut token = Token::from_text(text)?;
    token.settle(now_ms);
    Ok(token)
}
