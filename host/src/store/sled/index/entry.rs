//! What the index keeps of one record, in few bytes: there are millions.

use std::cmp::Ordering;

use uuid::Uuid;

use crate::store::{Field, Position};

/// Characters of a UUID as text.
const UUID_CHARS: usize = 36;

/// A record's id. Most are UUIDs, which need no place of their own in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Id {
    /// A UUID in the one form that the vault writes: in lower case, with hyphens.
    Uuid([u8; 16]),
    /// Anything else.
    Text(Box<str>),
}

impl Id {
    /// The id with this text.
    pub fn of(text: &str) -> Self {
        let uuid = (text.len() == UUID_CHARS).then(|| Uuid::try_parse(text).ok()).flatten();
        let written_so = |uuid: &Uuid| uuid.hyphenated().encode_lower(&mut [0; UUID_CHARS]) == text;
        match uuid.filter(written_so) {
            Some(uuid) => Self::Uuid(uuid.into_bytes()),
            None => Self::Text(text.into()),
        }
    }

    /// Whether its text begins so.
    pub fn starts_with(&self, prefix: &str) -> bool {
        self.text(&mut [0; UUID_CHARS]).starts_with(prefix)
    }

    fn text<'a>(&'a self, room: &'a mut [u8; UUID_CHARS]) -> &'a str {
        match self {
            Self::Uuid(bytes) => Uuid::from_bytes_ref(bytes).hyphenated().encode_lower(room),
            Self::Text(text) => text,
        }
    }
}

impl Ord for Id {
    /// As the texts are ordered; those of UUIDs are as their bytes.
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Uuid(one), Self::Uuid(other)) => one.cmp(other),
            _ => self.text(&mut [0; UUID_CHARS]).cmp(other.text(&mut [0; UUID_CHARS])),
        }
    }
}

impl PartialOrd for Id {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The place of a record in the order of pages, as [`Position`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// When the record was made.
    pub order_ms: u64,
    id: Id,
}

impl Place {
    /// The place of a record that was made then and has this id.
    pub fn new(order_ms: u64, id: &str) -> Self {
        Self { order_ms, id: Id::of(id) }
    }

    /// The same place.
    pub fn of(position: &Position) -> Self {
        Self::new(position.order_ms, &position.id)
    }

    /// The same place.
    pub fn to_position(&self) -> Position {
        Position { order_ms: self.order_ms, id: self.with_id(str::to_owned) }
    }

    /// The record's id.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// What a function makes of the id.
    fn with_id<T>(&self, make: impl FnOnce(&str) -> T) -> T {
        make(self.id.text(&mut [0; UUID_CHARS]))
    }
}

/// One record's place and what it is found by.
pub struct Entry {
    /// The place.
    pub place: Place,
    /// How many terms, their numbers, and each number of a field in three words: one allocation for all.
    words: Box<[u32]>,
}

impl Entry {
    /// An entry with these numbers of terms and these numbers of fields.
    pub fn new(
        place: Place,
        terms: impl Iterator<Item = u32>,
        numbers: impl Iterator<Item = (Field, u64)>,
    ) -> Self {
        let mut words = Vec::with_capacity(1 + terms.size_hint().0 + 3 * numbers.size_hint().0);
        words.push(0);
        words.extend(terms);
        words[0] = u32::try_from(words.len() - 1).unwrap_or(u32::MAX);
        for (Field(field), number) in numbers {
            let [high, low] = [number >> 32, number & u64::from(u32::MAX)];
            let half = |half: u64| u32::try_from(half).unwrap_or(u32::MAX);
            words.extend([u32::from(field), half(high), half(low)]);
        }
        Self { place, words: words.into() }
    }

    /// The numbers of its terms.
    pub fn terms(&self) -> &[u32] {
        &self.words[1..=self.words[0] as usize]
    }

    /// The same, to be given out anew.
    pub fn terms_mut(&mut self) -> &mut [u32] {
        let count = self.words[0] as usize;
        &mut self.words[1..=count]
    }

    /// The numbers of its fields.
    pub fn numbers(&self) -> impl Iterator<Item = (Field, u64)> + '_ {
        let (numbers, _) = self.words[1 + self.words[0] as usize..].as_chunks::<3>();
        numbers.iter().map(|[field, high, low]| {
            let field = Field(u8::try_from(*field).unwrap_or(u8::MAX));
            (field, u64::from(*high) << 32 | u64::from(*low))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::{Entry, Id, Place};
    use crate::store::{Field, Position};

    fn id() -> impl Strategy<Value = String> {
        let uuid = any::<u128>().prop_map(|number| Uuid::from_u128(number).to_string());
        prop_oneof![
            uuid.clone(),
            uuid.clone().prop_map(|text| text.to_uppercase()),
            uuid.clone().prop_map(|text| text.replace('-', "_")),
            uuid.prop_map(|text| text[..35].to_owned()),
            "[0-9a-f-]{36}",
            "[ -~é]{0,40}",
        ]
    }

    #[test]
    fn an_entry_is_small() {
        assert_eq!(size_of::<Entry>(), 48);
        assert!(matches!(Id::of("0190f3e4-5b6c-7d8e-9f00-112233445566"), Id::Uuid(_)));
        for other in ["0190F3E4-5b6c-7d8e-9f00-112233445566", "0190f3e45b6c7d8e9f00112233445566"] {
            assert!(matches!(Id::of(other), Id::Text(_)), "{other}");
        }
    }

    proptest! {
        #[test]
        fn places_are_ordered_as_positions(ids in prop::collection::vec((0..3_u64, id()), 2..8)) {
            let mut positions: Vec<Position> =
                ids.into_iter().map(|(order_ms, id)| Position { order_ms, id }).collect();
            let mut places: Vec<Place> = positions.iter().map(Place::of).collect();
            positions.sort();
            places.sort();
            let back: Vec<Position> = places.iter().map(Place::to_position).collect();
            prop_assert_eq!(back, positions);
        }

        #[test]
        fn an_entry_gives_back_what_it_was_made_of(
            terms in prop::collection::vec(any::<u32>(), 0..20),
            numbers in prop::collection::vec((any::<u8>(), any::<u64>()), 0..6),
        ) {
            let numbers: Vec<_> = numbers.into_iter().map(|(field, number)| (Field(field), number)).collect();
            let place = Place::new(1, "id");
            let mut entry = Entry::new(place, terms.iter().copied(), numbers.iter().copied());
            prop_assert_eq!(entry.terms(), &terms[..]);
            prop_assert_eq!(entry.terms_mut(), &terms[..]);
            prop_assert_eq!(entry.numbers().collect::<Vec<_>>(), numbers);
        }
    }
}
