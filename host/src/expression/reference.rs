//! References to tokens in arguments (interface §4.5, decisions §4).
//!
//! `{{ <token id> }}` stands for the token's data, with filters if any follow; `{{ token: <id> | … }}` for the whole
//! token. An id may hold spaces and punctuation, so its end is the first `|` or the closing braces; what follows is an
//! expression on `data`. A string that is one reference becomes the value with its type; otherwise it stays text.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::simple::{is_singular_json, named_by_json};
use super::template::{Evaluation, Quotes, Scope, Stretch, Template, stretches};
use super::value::to_text;
use super::work::{Work, weight};
use super::{ExpressionError, is_expression};
use crate::crypto::entropy::Entropy;
use crate::limits::{EXPRESSION_BYTES_MAX, FAULTS_MAX, FILLED_BYTES_MAX, TOKENS_PER_CALL_MAX};
use crate::model::faults::{Faults, is_within};
use crate::model::id::TokenId;
use crate::model::path::Path;
use crate::model::plaintext::{opaque, wipe};

/// What a reference can show of a token; wiped when it is dropped.
pub struct TokenParts {
    /// The token's id.
    pub id: String,
    /// Its data.
    pub data: Value,
    /// The whole token, if a reference is to it.
    pub whole: Option<Value>,
}

impl Drop for TokenParts {
    fn drop(&mut self) {
        wipe(&mut self.data);
        self.whole.iter_mut().for_each(wipe);
    }
}

/// A JSON value with references in it.
pub struct Arguments {
    root: Node,
    /// Distinct, in the order of their first use.
    ids: Vec<TokenId>,
    /// Those of which the whole token is wanted somewhere.
    wholes: Vec<TokenId>,
    /// Where they stand: as many places as faults can name.
    uses: Vec<Use>,
    /// In how many places each stands as it is, and in how many what filters make of it.
    counts: HashMap<TokenId, (usize, usize)>,
}

/// Why references cannot be replaced.
#[derive(Debug)]
pub struct Unfilled {
    /// What is wrong, and where.
    pub faults: Faults,
    /// Whether a bound was met, for which all that was replaced before counts: what is wrong at one place may be so for what
    /// stands at others.
    pub is_bound: bool,
}

/// A reference.
struct Use {
    id: TokenId,
    path: String,
    /// It is all that stands there, and shows what the token holds as it is, or a member of that.
    is_plain: bool,
}

enum Node {
    Literal(Value),
    Text(Vec<Piece>),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

enum Piece {
    Text(String),
    Reference { id: TokenId, whole: bool, filters: Option<Template> },
}

opaque!(Arguments, Node, Piece, Use);

impl Arguments {
    /// Finds the references in a value; faults are at paths within it.
    pub fn parse(value: &Value) -> Result<Self, Faults> {
        let mut faults = Faults::new();
        let arguments = Self::read(value, &mut faults);
        faults.into_result(arguments)
    }

    /// As [`Self::parse`]. What cannot be read has a fault, and refers to nothing.
    pub fn read(value: &Value, faults: &mut Faults) -> Self {
        let root = Node::Literal(Value::Null);
        let (ids, wholes, uses, counts) = Default::default();
        let mut arguments = Self { root, ids, wholes, uses, counts };
        arguments.root = arguments.node(value, Path::Root, faults);
        if arguments.ids.len() > TOKENS_PER_CALL_MAX {
            faults.add("", format!("refers to more than {TOKENS_PER_CALL_MAX} tokens"));
        }
        arguments
    }

    /// The tokens referred to, each once, in the order of their first use.
    pub fn token_ids(&self) -> &[TokenId] {
        &self.ids
    }

    /// Whether a reference is to the whole token, and not to its data.
    pub fn shows_whole(&self, id: &str) -> bool {
        self.wholes.iter().any(|whole| whole.as_str() == id)
    }

    /// Where a token is referred to.
    pub fn paths_of(&self, id: &TokenId) -> Vec<String> {
        let uses = self.uses.iter().filter(|used| used.id == *id);
        uses.map(|used| used.path.clone()).collect()
    }

    /// In how many places a token stands as it is, and in how many what filters make of it, which is bounded by itself.
    pub fn uses_of(&self, id: &TokenId) -> (usize, usize) {
        self.counts.get(id).copied().unwrap_or_default()
    }

    /// The value with `null` where references stand.
    pub fn without_references(&self) -> Value {
        literal(&self.root)
    }

    /// Whether a reference stands at this path or above it. With more references than faults can name, everywhere.
    pub fn reach(&self, path: &str) -> bool {
        self.uses.len() >= FAULTS_MAX || self.uses_at(path).next().is_some()
    }

    /// Whether a value at this path is refused for no more than what kind of value it is, as far as it is of a token: what
    /// filters make of it, and what it comes to within a text, may be made to fail for some data only.
    pub fn is_plain(&self, path: &str) -> bool {
        // What is wrong with all of it may be so for anything in it.
        let all_of_it = path.is_empty() && !self.are_plain();
        self.uses.len() < FAULTS_MAX && !all_of_it && self.uses_at(path).all(|used| used.is_plain)
    }

    /// Whether all references are plain: then bounds are met for how much tokens hold, and not for what.
    pub fn are_plain(&self) -> bool {
        self.uses.len() < FAULTS_MAX && self.uses.iter().all(|used| used.is_plain)
    }

    /// Where what is refused may be so for what a token holds, if that is one place.
    pub fn only_place_that_is_not_plain(&self) -> Option<&str> {
        let mut places = self.uses.iter().filter(|used| !used.is_plain).map(|used| &used.path);
        let first = places.next().filter(|_| self.uses.len() < FAULTS_MAX)?;
        places.all(|place| place == first).then_some(first)
    }

    fn uses_at(&self, path: &str) -> impl Iterator<Item = &Use> {
        self.uses.iter().filter(move |used| is_within(path, &used.path))
    }

    /// The value with every reference replaced, with so much work.
    pub fn fill<'p>(
        &self,
        parts: &dyn Fn(&TokenId) -> Option<&'p TokenParts>,
        entropy: &dyn Entropy,
        work: &Work,
    ) -> Result<Value, Unfilled> {
        let left = FILLED_BYTES_MAX;
        let (faults, is_bound) = (Faults::new(), false);
        let mut filling = Filling { parts, entropy, work, left, faults, is_bound };
        let value = filling.fill(&self.root, Path::Root);
        let Filling { faults, is_bound, .. } = filling;
        faults.into_result(value).map_err(|faults| Unfilled { faults, is_bound })
    }

    fn node(&mut self, value: &Value, path: Path<'_>, faults: &mut Faults) -> Node {
        match value {
            Value::String(text) if is_expression(text) => {
                let pieces = self.pieces(text, path);
                Node::Text(faults.check_at(path, pieces).unwrap_or_default())
            }
            Value::Array(items) => {
                let mut nodes = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    nodes.push(self.node(item, path.item(index), faults));
                }
                Node::Array(nodes)
            }
            Value::Object(members) => {
                let mut nodes = Vec::with_capacity(members.len());
                for (name, member) in members {
                    nodes.push((name.clone(), self.node(member, path.member(name), faults)));
                }
                Node::Object(nodes)
            }
            literal => Node::Literal(literal.clone()),
        }
    }

    fn pieces(&mut self, text: &str, path: Path<'_>) -> Result<Vec<Piece>, ReferenceError> {
        let mut pieces = Vec::new();
        let stretches = stretches(text, Quotes::InFilters)?;
        let is_alone = stretches.len() == 1;
        for stretch in stretches {
            match stretch {
                Stretch::Text(text) => pieces.push(Piece::Text(text.to_owned())),
                Stretch::Expression(source) => {
                    let piece = reference(source)?;
                    if let Piece::Reference { id, whole, .. } = &piece {
                        add(&mut self.ids, id);
                        if *whole {
                            add(&mut self.wholes, id);
                        }
                        let (as_it_is, made) = self.counts.entry(id.clone()).or_default();
                        *if source.contains('|') { made } else { as_it_is } += 1;
                        if self.uses.len() < FAULTS_MAX {
                            let is_plain = is_alone && is_plain(source.trim());
                            self.uses.push(Use {
                                id: id.clone(),
                                path: path.to_string(),
                                is_plain,
                            });
                        }
                    }
                    pieces.push(piece);
                }
            }
        }
        Ok(pieces)
    }
}

fn literal(node: &Node) -> Value {
    match node {
        Node::Literal(value) => value.clone(),
        Node::Text(pieces) => literal_text(pieces).map_or(Value::Null, Value::String),
        Node::Array(items) => Value::Array(items.iter().map(literal).collect()),
        Node::Object(members) => {
            let members = members.iter().map(|(name, member)| (name.clone(), literal(member)));
            Value::Object(members.collect())
        }
    }
}

/// What looks like an expression and refers to nothing. What cannot be read has no pieces.
fn literal_text(pieces: &[Piece]) -> Option<String> {
    let mut text = None::<String>;
    for piece in pieces {
        match piece {
            Piece::Text(piece) => text.get_or_insert_default().push_str(piece),
            Piece::Reference { .. } => return None,
        }
    }
    text
}

/// Adds an id that is not there yet. One more than a call may have is enough to refuse, and keeps the search short.
fn add(ids: &mut Vec<TokenId>, id: &TokenId) {
    if ids.len() <= TOKENS_PER_CALL_MAX && !ids.contains(id) {
        ids.push(id.clone());
    }
}

/// Why a reference cannot be used.
#[derive(Debug, thiserror::Error)]
enum ReferenceError {
    #[error("refers to no token: its id {0}")]
    Id(#[from] crate::model::id::InvalidTokenId),
    #[error(transparent)]
    Expression(#[from] ExpressionError),
}

fn reference(source: &str) -> Result<Piece, ReferenceError> {
    if source.len() + "{{}}".len() > EXPRESSION_BYTES_MAX {
        return Err(ExpressionError::TooLong.into());
    }
    let source = source.trim();
    let (head, filters) = match source.split_once('|') {
        Some((head, filters)) => (head.trim(), Some(filters)),
        None => (source, None),
    };
    let of_token = head.strip_prefix("token:").map(str::trim);
    let id = of_token.unwrap_or(head).parse()?;
    let source = filters.map(|filters| format!("data | {filters}"));
    // Otherwise all of the token is written out as JSON, to be looked into in one place.
    let in_data = source.as_deref().filter(|_| of_token.is_some()).and_then(named_in_data);
    let whole = of_token.is_some() && in_data.is_none();
    let expression = |source: &String| Template::parse_measured(&format!("{{{{ {source} }}}}"));
    let filters = in_data.as_ref().or(source.as_ref()).map(expression).transpose()?;
    Ok(Piece::Reference { id, whole, filters })
}

/// Whether a reference has no filters, or one that looks for a member by its name or number.
fn is_plain(source: &str) -> bool {
    source.split_once('|').is_none_or(|(_, filter)| is_singular_json(filter))
}

/// The expression on a token's data that comes to the same as this one on the token.
fn named_in_data(source: &str) -> Option<String> {
    let path = named_by_json(source)?;
    let (data, names) = path.split_first()?;
    // The data as such may be hidden, which is something else than `null`.
    let is_within = data == "data" && !names.is_empty();
    is_within.then(|| format!("data | json: '$.{}'", names.join(".")))
}

/// Filling under way.
struct Filling<'f, 'p> {
    parts: &'f dyn Fn(&TokenId) -> Option<&'p TokenParts>,
    entropy: &'f dyn Entropy,
    work: &'f Work,
    left: usize,
    faults: Faults,
    is_bound: bool,
}

impl Filling<'_, '_> {
    fn fill(&mut self, node: &Node, path: Path<'_>) -> Value {
        match node {
            Node::Literal(value) => value.clone(),
            // It has failed: nothing more is worth its work.
            Node::Text(_) if self.work.is_spent() => Value::Null,
            Node::Text(pieces) => {
                let filled = self.text(pieces);
                if filled.as_ref().is_err_and(|error| error.is_bound()) {
                    self.is_bound = true;
                    self.work.spend();
                }
                self.faults.check_at(path, filled).unwrap_or(Value::Null)
            }
            Node::Array(items) => {
                let items = items.iter().enumerate();
                Value::Array(items.map(|(index, item)| self.fill(item, path.item(index))).collect())
            }
            Node::Object(members) => {
                let mut filled = Map::with_capacity(members.len());
                for (name, member) in members {
                    filled.insert(name.clone(), self.fill(member, path.member(name)));
                }
                Value::Object(filled)
            }
        }
    }

    fn text(&mut self, pieces: &[Piece]) -> Result<Value, ExpressionError> {
        if let [piece @ Piece::Reference { .. }] = pieces {
            return self.piece(piece);
        }
        let mut text = String::new();
        for piece in pieces {
            text.push_str(&to_text(&self.piece(piece)?));
        }
        Ok(Value::String(text))
    }

    fn piece(&mut self, piece: &Piece) -> Result<Value, ExpressionError> {
        let (id, whole, filters) = match piece {
            Piece::Text(text) => return Ok(Value::String(text.clone())),
            Piece::Reference { id, whole, filters } => (id, *whole, filters),
        };
        // The vault has looked every id up before.
        let parts = (self.parts)(id).ok_or(ExpressionError::Unevaluable)?;
        let data = if whole { parts.whole.as_ref() } else { Some(&parts.data) };
        let data = data.ok_or(ExpressionError::Unevaluable)?;
        let value = match filters {
            None => {
                self.work.pay(weight(data).cost())?;
                data.clone()
            }
            Some(template) => {
                let scope = Scope { data, metadata: None, entropy: Some(self.entropy) };
                template.evaluate_in(&Evaluation::new(scope, self.work))?
            }
        };
        self.left = self.left.checked_sub(to_text(&value).len()).ok_or(ExpressionError::TooMuch)?;
        Ok(value)
    }
}
