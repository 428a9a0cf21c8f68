//! What a script's top level left in memory, as the places where it differs from what every instance begins with.
//!
//! Pure: it takes the memory before and after, and gives the pieces that the runner lays over its own; their shape is told
//! in the runner's `wit/`.

use std::sync::Arc;

use crate::limits::SCRIPT_IMAGE_BYTES_MAX;

/// Bytes of a piece, at most; as the runner has it.
const PIECE_BYTES: usize = 32 << 10;
/// Bytes that are compared at a time.
const WORD_BYTES: usize = 8;
/// The same, as addresses count.
const WORD_STEP: u32 = 8;
/// Words that are the same between two that differ, and are written all the same: less than to begin anew.
const SAME_WORDS_MAX: usize = 4;
/// Words of which each is written by itself.
const SINGLE_WORDS_MAX: usize = 4;
/// Bytes of a single word with its address, and before those that follow on each other.
const SINGLE_BYTES: usize = 12;
const BLOCK_START_BYTES: usize = 8;
/// Bytes of a page of WebAssembly.
const PAGE_BYTES: usize = 64 << 10;

/// The image of a script. Cloning shares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Pages of the whole memory.
    pub pages: u32,
    /// Pieces, in any order.
    pub pieces: Vec<Arc<[u8]>>,
}

impl Image {
    /// What `after` differs in, of memory from the address `start` on; what it has more than `before` was zero. `None` when
    /// that is too much to be kept, or no memory.
    pub fn of(start: u32, before: &[u8], after: &[u8]) -> Option<Self> {
        let end = usize::try_from(start).ok()?.checked_add(after.len())?;
        let is_memory = after.len().is_multiple_of(WORD_BYTES) && before.len() <= after.len();
        if !is_memory || !end.is_multiple_of(PAGE_BYTES) {
            return None;
        }
        let mut pieces = Pieces::default();
        for (from, to) in differing(before, after) {
            let at = start.checked_add(u32::try_from(from).ok()?)?;
            pieces.add(at, after.get(from..to)?);
            if pieces.bytes > SCRIPT_IMAGE_BYTES_MAX {
                return None;
            }
        }
        Some(Self { pages: u32::try_from(end / PAGE_BYTES).ok()?, pieces: pieces.finished() })
    }

    /// Bytes of all pieces.
    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).sum()
    }
}

/// Where the two differ, as ranges of bytes.
fn differing(before: &[u8], after: &[u8]) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let words = after.chunks_exact(WORD_BYTES).enumerate();
    for (at, word) in words.map(|(index, word)| (index * WORD_BYTES, word)) {
        let same = match before.get(at..at + WORD_BYTES) {
            Some(was) => was == word,
            None => word.iter().all(|byte| *byte == 0),
        };
        if same {
            continue;
        }
        match found.last_mut() {
            Some((_, end)) if at - *end <= SAME_WORDS_MAX * WORD_BYTES => *end = at + WORD_BYTES,
            _ => found.push((at, at + WORD_BYTES)),
        }
    }
    found
}

/// Pieces in the making.
#[derive(Default)]
struct Pieces {
    done: Vec<Arc<[u8]>>,
    /// Of the one that is being filled.
    singles: Vec<u8>,
    blocks: Vec<u8>,
    /// Of all.
    bytes: usize,
}

impl Pieces {
    fn add(&mut self, mut at: u32, mut bytes: &[u8]) {
        self.bytes += bytes.len();
        if bytes.len() <= SINGLE_WORDS_MAX * WORD_BYTES {
            for word in bytes.chunks_exact(WORD_BYTES) {
                self.make_room(SINGLE_BYTES);
                self.singles.extend(at.to_le_bytes());
                self.singles.extend_from_slice(word);
                at += WORD_STEP;
            }
            return;
        }
        while !bytes.is_empty() {
            let room = self.make_room(BLOCK_START_BYTES + WORD_BYTES) - BLOCK_START_BYTES;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            let length = u32::try_from(now.len()).unwrap_or_default();
            self.blocks.extend(at.to_le_bytes());
            self.blocks.extend(length.to_le_bytes());
            self.blocks.extend_from_slice(now);
            at += length;
            bytes = later;
        }
    }

    /// Begins another piece unless this one has room for so many bytes; how many it has room for.
    fn make_room(&mut self, needed: usize) -> usize {
        let room = |pieces: &Self| {
            PIECE_BYTES - size_of::<u32>() - pieces.singles.len() - pieces.blocks.len()
        };
        if room(self) < needed {
            self.close();
        }
        room(self)
    }

    fn close(&mut self) {
        let count = u32::try_from(self.singles.len() / SINGLE_BYTES).unwrap_or_default();
        let parts = [&count.to_le_bytes()[..], &self.singles, &self.blocks];
        self.done.push(parts.concat().into());
        self.singles.clear();
        self.blocks.clear();
    }

    fn finished(mut self) -> Vec<Arc<[u8]>> {
        if !(self.singles.is_empty() && self.blocks.is_empty()) {
            self.close();
        }
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::{Image, PAGE_BYTES, PIECE_BYTES};
    use proptest::prelude::*;

    const START: u32 = 128 << 10;

    /// What the runner does with it.
    fn laid_over(image: &Image, before: &[u8], length: usize) -> Vec<u8> {
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        let mut memory = before.to_vec();
        memory.resize(length, 0);
        for piece in &image.pieces {
            assert!(piece.len() <= PIECE_BYTES);
            let (singles, mut blocks) = piece[4..].split_at(12 * number(piece));
            for single in singles.chunks_exact(12) {
                let at = number(single) - START as usize;
                memory[at..at + 8].copy_from_slice(&single[4..]);
            }
            while !blocks.is_empty() {
                let (at, bytes) = (number(blocks) - START as usize, number(&blocks[4..]));
                memory[at..at + bytes].copy_from_slice(&blocks[8..8 + bytes]);
                blocks = &blocks[8 + bytes..];
            }
        }
        memory
    }

    proptest! {
        #[test]
        fn an_image_over_what_was_before_gives_what_was_after(
            changes in prop::collection::vec((0..4 * PAGE_BYTES, any::<u8>(), 1..40_000_usize), 0..40),
            grown in any::<bool>(),
        ) {
            let pages = if grown { 2 } else { 4 };
            let before: Vec<u8> = (0..pages * PAGE_BYTES).map(|at| at.to_le_bytes()[0]).collect();
            let mut after = before.clone();
            after.resize(4 * PAGE_BYTES, 0);
            for (at, byte, length) in changes {
                let end = after.len().min(at + length);
                after[at..end].fill(byte);
            }
            let image = Image::of(START, &before, &after).unwrap();
            prop_assert_eq!(image.pages, 6);
            prop_assert_eq!(laid_over(&image, &before, after.len()), after);
        }
    }

    #[test]
    fn what_does_not_differ_takes_no_room() {
        let memory = vec![7; PAGE_BYTES];
        assert_eq!(Image::of(START, &memory, &memory).unwrap().bytes(), 0);
        let mut other = memory.clone();
        other[100] = 1;
        assert_eq!(Image::of(START, &memory, &other).unwrap().bytes(), 4 + 12);
        other[5_000..9_000].fill(1);
        assert_eq!(Image::of(START, &memory, &other).unwrap().bytes(), 4 + 12 + 8 + 4_000);
    }

    #[test]
    fn too_much_is_no_image_and_neither_is_what_is_no_memory() {
        let many = vec![1; 8 << 20];
        assert_eq!(Image::of(START, &[], &many), None);
        for (start, before, after) in [
            (START, 0, 7),
            (START, 0, 8),
            (START + 8, 0, PAGE_BYTES),
            (START, 2 * PAGE_BYTES, PAGE_BYTES),
        ] {
            assert_eq!(
                Image::of(start, &vec![0; before], &vec![0; after]),
                None,
                "{start} {before} {after}"
            );
        }
        assert_eq!(Image::of(u32::MAX, &[], &vec![0; PAGE_BYTES]), None);
    }
}
