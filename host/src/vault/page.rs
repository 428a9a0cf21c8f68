//! Pages of a list, and the cursors between them (decisions §1).
//!
//! A cursor is the position of the last entry seen, encoded: its time and its id. It tells nothing that the entry did not, but
//! for log entries, which are shown without ids of their own.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use utoipa::ToSchema;

use super::Error;
use crate::limits::{PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX};
use crate::model::faults::Faults;
use crate::store::{Filter, Position, Record, Slice, Start};

/// The largest number that every client's integers can hold.
const PAGE_NUMBER_MAX: u64 = i32::MAX.unsigned_abs() as u64;
/// Entries of a page of which each may be large.
const FEW: usize = 10;

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageStart {
    /// At the page of this number, from 1.
    Number(u64),
    /// After the entry that a cursor names, with the page's number.
    After(Position, u64),
}

/// Which entries are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    start: PageStart,
    size: usize,
}

impl PageRequest {
    /// Reads `page`, `size` and `start` as they stand in a query.
    pub fn parse(
        page: Option<&str>,
        size: Option<&str>,
        start: Option<&str>,
        faults: &mut Faults,
    ) -> Self {
        let mut number = |path: &str, text: Option<&str>, default: u64, max: u64| {
            let Some(text) = text else { return default };
            match text.parse() {
                Ok(number) if (1..=max).contains(&number) => number,
                _ => {
                    faults.add(path, format!("must be a whole number from 1 to {max}"));
                    default
                }
            }
        };
        let page_number = number("page", page, 1, PAGE_NUMBER_MAX);
        let size = number("size", size, PAGE_SIZE_DEFAULT as u64, PAGE_SIZE_MAX as u64);
        // Many generated clients send the default, page 1, with every request.
        if page_number != 1 && start.is_some() {
            faults.add("start", "cannot be combined with page");
        }
        let start = match start {
            None => PageStart::Number(page_number),
            Some(cursor) => {
                let known =
                    faults.check("start", decode(cursor).ok_or("is no cursor of this service"));
                known.map_or(PageStart::Number(1), |(number, position)| {
                    PageStart::After(position, number)
                })
            }
        };
        Self { start, size: usize::try_from(size).unwrap_or(PAGE_SIZE_MAX) }
    }

    /// The first page of the largest size.
    pub fn first() -> Self {
        Self { start: PageStart::Number(1), size: PAGE_SIZE_MAX }
    }

    /// The same with few entries.
    pub(super) fn of_few(self) -> Self {
        Self { size: FEW, ..self }
    }

    /// The page that a cursor names, of the largest size.
    pub(super) fn following(cursor: &str) -> Option<Self> {
        let (number, position) = decode(cursor)?;
        Some(Self { start: PageStart::After(position, number), size: PAGE_SIZE_MAX })
    }

    /// Where the page begins, and how many entries it has.
    pub(super) fn place(&self) -> (Start, usize) {
        let start = match &self.start {
            PageStart::Number(number) => Start::Offset((number - 1) * self.size as u64),
            PageStart::After(position, _) => Start::After(position.clone()),
        };
        (start, self.size)
    }

    /// Makes a page of entries that are all in memory, for lists that the store does not hold alone.
    pub(super) fn cut<T>(
        &self,
        mut entries: Vec<T>,
        order_ms: impl Fn(&T) -> u64,
        id: impl Fn(&T) -> String,
    ) -> Page<T> {
        let place = |entry: &T| Position { order_ms: order_ms(entry), id: id(entry) };
        let newest_first = |a: &Position, b: &Position| {
            (b.order_ms, b.id.as_str()).cmp(&(a.order_ms, a.id.as_str()))
        };
        entries.sort_by(|a, b| newest_first(&place(a), &place(b)));
        let total = entries.len();
        let (skipped, page_number) = match &self.start {
            PageStart::Number(number) => {
                let skipped = (number - 1).saturating_mul(self.size as u64);
                (usize::try_from(skipped).unwrap_or(usize::MAX).min(total), *number)
            }
            PageStart::After(position, number) => {
                let seen = |entry: &T| newest_first(&place(entry), position).is_le();
                (entries.partition_point(seen), *number)
            }
        };
        let more = skipped + self.size < total;
        let data: Vec<T> = entries.into_iter().skip(skipped).take(self.size).collect();
        let last = data.last().filter(|_| more);
        Page {
            next: last.map(|entry| encode(page_number + 1, &place(entry))),
            data,
            total_items: total as u64,
            page_number,
            page_size: self.size,
        }
    }

    /// Makes a page of a slice.
    pub(super) fn page<T>(
        &self,
        slice: &Slice,
        open: impl FnMut(&Record) -> Result<T, Error>,
    ) -> Result<Page<T>, Error> {
        let data = slice.records.iter().map(open).collect::<Result<Vec<T>, Error>>()?;
        Ok(Page { data, ..self.empty(slice) })
    }

    /// Where the page of a slice stands.
    pub(super) fn pagination(&self, slice: &Slice) -> Pagination {
        self.empty::<()>(slice).into()
    }

    fn empty<T>(&self, slice: &Slice) -> Page<T> {
        let (PageStart::Number(page_number) | PageStart::After(_, page_number)) = self.start;
        Page {
            data: Vec::new(),
            total_items: slice.total,
            page_number,
            page_size: self.size,
            next: slice.next.as_ref().map(|position| encode(page_number + 1, position)),
        }
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The entries, newest first.
    pub data: Vec<T>,
    /// How many there are on all pages: exact, and only what the caller may see.
    pub total_items: u64,
    /// The page's number, from 1.
    pub page_number: u64,
    /// How many entries a page has.
    pub page_size: usize,
    /// The cursor to the next page.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// The same page with its entries in another form.
    pub fn map<U>(self, form: impl FnMut(T) -> U) -> Page<U> {
        Page {
            data: self.data.into_iter().map(form).collect(),
            total_items: self.total_items,
            page_number: self.page_number,
            page_size: self.page_size,
            next: self.next,
        }
    }

    /// The same page with its entries in another form, less those that have none.
    pub(super) fn try_filter_map<U>(
        self,
        form: impl FnMut(T) -> Result<Option<U>, Error>,
    ) -> Result<Page<U>, Error> {
        let data = self.data.into_iter().map(form).filter_map(Result::transpose);
        Ok(Page {
            data: data.collect::<Result<_, _>>()?,
            total_items: self.total_items,
            page_number: self.page_number,
            page_size: self.page_size,
            next: self.next,
        })
    }

    /// How many pages there are.
    pub fn total_pages(&self) -> u64 {
        self.total_items.div_ceil(self.page_size as u64)
    }
}

/// A page of a list (decisions §1).
#[derive(Debug, Serialize, ToSchema)]
pub struct Paginated<T> {
    /// Where the page stands.
    pagination: Pagination,
    /// The entries, newest first.
    data: Vec<T>,
}

/// Where a page stands.
#[derive(Debug, Serialize, ToSchema)]
pub struct Pagination {
    /// How many entries there are on all pages.
    pub total_items: u64,
    /// This page's number, from 1.
    page_number: u64,
    /// How many entries a page has.
    page_size: usize,
    /// How many pages there are.
    pub total_pages: u64,
    /// A cursor for the parameter `start`; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl<T> From<Page<T>> for Paginated<T> {
    fn from(mut page: Page<T>) -> Self {
        let data = std::mem::take(&mut page.data);
        Self { pagination: page.into(), data }
    }
}

impl<T> From<Page<T>> for Pagination {
    fn from(page: Page<T>) -> Self {
        Self {
            total_items: page.total_items,
            page_number: page.page_number,
            page_size: page.page_size,
            total_pages: page.total_pages(),
            next: page.next,
        }
    }
}

/// Everything, or only these ids if there are any.
pub fn only_ids(ids: &[impl ToString]) -> Filter {
    if ids.is_empty() {
        Filter::All
    } else {
        Filter::Ids(ids.iter().map(ToString::to_string).collect())
    }
}

fn encode(page_number: u64, position: &Position) -> String {
    let mut bytes = page_number.to_be_bytes().to_vec();
    bytes.extend_from_slice(&position.order_ms.to_be_bytes());
    bytes.extend_from_slice(position.id.as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

fn decode(cursor: &str) -> Option<(u64, Position)> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (page_number, rest) = bytes.split_first_chunk::<8>()?;
    let (order_ms, id) = rest.split_first_chunk::<8>()?;
    let id = std::str::from_utf8(id).ok()?.to_owned();
    let position = Position { order_ms: u64::from_be_bytes(*order_ms), id };
    Some((u64::from_be_bytes(*page_number).clamp(1, PAGE_NUMBER_MAX), position))
}

#[cfg(test)]
mod tests {
    use super::{PageRequest, PageStart, decode, encode};
    use crate::model::faults::Faults;
    use crate::store::Position;

    fn parse(page: Option<&str>, size: Option<&str>, start: Option<&str>) -> (PageRequest, Faults) {
        let mut faults = Faults::new();
        let request = PageRequest::parse(page, size, start, &mut faults);
        (request, faults)
    }

    #[test]
    fn defaults_and_bounds() {
        let (request, faults) = parse(None, None, None);
        assert!(faults.is_empty());
        assert_eq!(request, PageRequest { start: PageStart::Number(1), size: 20 });
        assert!(parse(Some("3"), Some("100"), None).1.is_empty());
        for (page, size) in [("0", "20"), ("-1", "20"), ("x", "20"), ("1", "0"), ("1", "101")] {
            assert!(!parse(Some(page), Some(size), None).1.is_empty(), "{page} {size}");
        }
        assert!(parse(Some("2147483647"), None, None).1.is_empty());
        for page in ["2147483648", "99999999999999999999"] {
            assert!(!parse(Some(page), None, None).1.is_empty(), "{page}");
        }
    }

    #[test]
    fn cursors_decode_to_what_they_were_made_of() {
        let position = Position { order_ms: 1_234, id: "some id, é".to_owned() };
        assert_eq!(decode(&encode(3, &position)), Some((3, position)));
        for wrong in ["", "!", "AAAA", "_____________________________w"] {
            assert_eq!(decode(wrong), None, "{wrong}");
            assert!(!parse(None, None, Some(wrong)).1.is_empty());
        }
        let cursor = encode(2, &Position { order_ms: 1, id: "abc".to_owned() });
        assert!(parse(None, None, Some(&cursor)).1.is_empty());
        assert!(parse(Some("1"), None, Some(&cursor)).1.is_empty());
        assert!(!parse(Some("2"), None, Some(&cursor)).1.is_empty());
    }
}
