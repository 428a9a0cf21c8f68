//! Lists of the vault in memory, answered as the vault's interface has them (§4.1): filters, pages and their cursors.
//!
//! It does not know where tokens are kept. To take another filter: a member of [`Wanted`], a line in [`Wanted::read`] and
//! one in [`Wanted::matches`].

use serde_json::{Value, json};

use crate::Problem;

/// Tokens on a page unless the caller says otherwise.
const SIZE_DEFAULT: u64 = 20;
/// Tokens on a page, most.
const SIZE_MAX: u64 = 100;
/// The largest number of a page.
const NUMBER_MAX: u64 = i32::MAX.unsigned_abs() as u64;

/// A token with its place: what was made later has a higher one.
pub struct Kept {
    pub order: u64,
    pub token: Value,
}

type Faults = Vec<(String, Vec<String>)>;

/// Which tokens are asked for: those that match everything that is set.
pub struct Wanted {
    ids: Vec<String>,
    types: Vec<String>,
    fingerprints: Vec<String>,
    /// Paths; the flag says whether those below count.
    containers: Vec<(String, bool)>,
    metadata: Vec<(String, String)>,
}

impl Wanted {
    /// Reads the parameters of a list.
    pub fn read(filter: &Value) -> Result<(Self, Cut), Problem> {
        let mut faults = Faults::new();
        let texts = |name: &str| -> Vec<String> {
            let given = filter[name].as_array().into_iter().flatten();
            given.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut containers = Vec::new();
        for (index, text) in texts("container").iter().enumerate() {
            match scope(text) {
                Ok(scope) => containers.push(scope),
                Err(reason) => faults.push((format!("container[{index}]"), vec![reason.into()])),
            }
        }
        let metadata = filter["metadata"].as_object().into_iter().flatten();
        let metadata = metadata
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_lowercase())))
            .collect();
        let cut = Cut::read(filter, &mut faults);
        let (ids, types, fingerprints) = (texts("id"), texts("type"), texts("fingerprint"));
        refused(faults)?;
        Ok((Self { ids, types, fingerprints, containers, metadata }, cut))
    }

    /// Whether a token is asked for.
    pub fn matches(&self, token: &Value) -> bool {
        let one_of = |wanted: &[String], member: &str| {
            wanted.is_empty() || wanted.iter().any(|wanted| token[member] == wanted.as_str())
        };
        let own = || token["containers"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let within = |(path, below): &(String, bool)| {
            own().any(|own| {
                let own = own.to_ascii_lowercase();
                own == *path || *below && own.starts_with(path)
            })
        };
        one_of(&self.ids, "id")
            && one_of(&self.types, "type")
            && one_of(&self.fingerprints, "fingerprint")
            && (self.containers.is_empty() || self.containers.iter().any(within))
            && self.metadata.iter().all(|(key, wanted)| {
                token["metadata"][key].as_str().is_some_and(|own| own.to_lowercase() == *wanted)
            })
    }
}

/// Which part of what is found is shown.
pub struct Cut {
    number: u64,
    size: usize,
    /// The place of the last token seen.
    after: Option<u64>,
}

impl Cut {
    /// Reads the parameters of a search that are about its pages.
    pub fn of_search(search: &Value) -> Result<Self, Problem> {
        let mut faults = Faults::new();
        let cut = Self::read(search, &mut faults);
        refused(faults)?;
        Ok(cut)
    }

    fn read(asked: &Value, faults: &mut Faults) -> Self {
        let mut number = |name: &str, default: u64, max: u64| match &asked[name] {
            Value::Null => default,
            given => {
                given.as_u64().filter(|given| (1..=max).contains(given)).unwrap_or_else(|| {
                    let text = format!("must be a whole number from 1 to {max}");
                    faults.push((name.to_owned(), vec![text]));
                    default
                })
            }
        };
        let page = number("page", 1, NUMBER_MAX);
        let size = number("size", SIZE_DEFAULT, SIZE_MAX);
        let mut cut =
            Self { number: page, size: usize::try_from(size).unwrap_or_default(), after: None };
        if let Some(start) = asked["start"].as_str() {
            let mut fault = |text: &str| faults.push(("start".to_owned(), vec![text.to_owned()]));
            if page != 1 {
                fault("cannot be combined with page");
            }
            match decode(start) {
                Some((number, after)) => (cut.number, cut.after) = (number, Some(after)),
                None => fault("is no cursor of this service"),
            }
        }
        cut
    }

    /// The page with what is found, newest first.
    pub fn page(&self, mut found: Vec<&Kept>) -> String {
        found.sort_by_key(|kept| std::cmp::Reverse(kept.order));
        let total = found.len();
        let skipped = match self.after {
            Some(after) => found.partition_point(|kept| kept.order >= after),
            None => {
                usize::try_from(self.number - 1).unwrap_or(usize::MAX).saturating_mul(self.size)
            }
        };
        let rest = found.get(skipped..).unwrap_or_default();
        let shown = rest.get(..self.size).unwrap_or(rest);
        let mut pagination = json!({
            "total_items": total,
            "page_number": self.number,
            "page_size": self.size,
            "total_pages": total.div_ceil(self.size),
        });
        if let Some(last) = shown.last().filter(|_| shown.len() < rest.len()) {
            pagination["next"] = encode(self.number + 1, last.order).into();
        }
        let data: Vec<&Value> = shown.iter().map(|kept| &kept.token).collect();
        json!({ "pagination": pagination, "data": data }).to_string()
    }
}

/// A cursor: the place of the last token seen, so that what comes and goes meanwhile moves nothing.
fn encode(number: u64, order: u64) -> String {
    format!("{number:x}-{order:x}")
}

fn decode(cursor: &str) -> Option<(u64, u64)> {
    let (number, order) = cursor.split_once('-')?;
    let read = |text| u64::from_str_radix(text, 16).ok();
    Some((read(number)?.clamp(1, NUMBER_MAX), read(order)?))
}

/// Reads a container; a trailing `*` means those below it too.
fn scope(text: &str) -> Result<(String, bool), &'static str> {
    let (path, below) = text.strip_suffix('*').map_or((text, false), |path| (path, true));
    if path != "/" {
        let inner = path.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        let inner = inner.ok_or("must start and end with /")?;
        let valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if inner.split('/').any(|segment| segment.is_empty() || !segment.chars().all(valid)) {
            return Err("must have segments of letters, digits, - and _ only");
        }
    }
    Ok((path.to_ascii_lowercase(), below))
}

fn refused(faults: Faults) -> Result<(), Problem> {
    if faults.is_empty() {
        return Ok(());
    }
    let problem = Problem::new(400, "Bad Request", "a parameter of the list is invalid");
    Err(Problem { errors: faults, ..problem })
}

#[cfg(test)]
mod tests;
