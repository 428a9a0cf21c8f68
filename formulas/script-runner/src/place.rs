//! Where an early error is: what is wrong with a script that parses, such as a name that is declared twice. The engine knows
//! it when all is parsed, and gives the beginning of the script, or of the block.
//!
//! The fewest first tokens that have the same error, closed as they need it, end with what is wrong; without it they parse.
//! The search halves what is between, passes over what says neither, and parses so many bytes and no more.

use core::ops::Range;

use boa_engine::ast::scope::Scope;
use boa_engine::interner::Interner;
use boa_engine::parser::{Parser, Source};

use crate::tokens;

/// Bytes that are parsed in one search: a script has at most a MiB, and time to be parsed some times.
const EFFORT_BYTES: usize = 4 << 20;
/// What makes statements of the beginnings of them, before and after what closes them: of a name's, a pattern's, a class's, a
/// function's.
const ENDINGS: &[[&str; 2]] = &[[" = 0", ""], ["", " = 0"], [" {}", ""], ["(){}", ""]];
/// What is said of a private name that no class declares; it may be declared after it is used.
const PRIVATE: &str = "invalid private identifier usage";

/// The byte at which an error is, as an empty range, if it is one whose place the engine does not tell. The range has bytes
/// when it would be too much to look any longer: it begins at one of them, or at its end.
pub fn of(code: &str, words: &str) -> Option<Range<usize>> {
    let is_untold = words.ends_with(" at line 1, col 1")
        || words.contains(" declared ")
        || words.starts_with("invalid scope analysis");
    if !is_untold {
        return None;
    }
    let tokens = tokens::of(code);
    let mut search = Search { code, words, tokens: &tokens, left: EFFORT_BYTES };
    if words.starts_with(PRIVATE) { search.private() } else { search.early() }
}

/// What the engine says of a part of the script.
#[derive(Clone, Copy, PartialEq)]
enum Said {
    Parses,
    /// What it says of the whole.
    Same,
    /// That it breaks off where it should not; or nothing, as it was asked too much.
    Other,
}

struct Search<'a> {
    code: &'a str,
    words: &'a str,
    tokens: &'a [Range<usize>],
    /// Bytes that may still be parsed.
    left: usize,
}

impl Search<'_> {
    fn early(&mut self) -> Option<Range<usize>> {
        // So many tokens parse, and so many have the error.
        let (mut good, mut bad) = (0, self.tokens.len());
        while let Some((count, said)) = self.between(good, bad) {
            if said == Said::Same {
                bad = count;
            } else {
                good = count;
            }
        }
        let (first, last) = (self.tokens.get(good)?, self.tokens.get(bad.checked_sub(1)?)?);
        if self.left == 0 {
            return Some(first.start..last.start);
        }
        // What is left makes a statement only together: up to its name it may, with another ending.
        let named = (good + 1..=bad).find(|count| {
            ENDINGS.iter().any(|endings| self.first_say(*count, *endings) == Said::Same)
        });
        let at = named.and_then(|count| self.tokens.get(count - 1)).unwrap_or(first).start;
        Some(at..at)
    }

    /// A number of tokens between these of which the engine says what it says of one of them; the nearer to their middle the
    /// better.
    fn between(&mut self, good: usize, bad: usize) -> Option<(usize, Said)> {
        let middle = usize::midpoint(good, bad);
        for count in (middle..bad).chain((good + 1..middle).rev()).filter(|count| *count > good) {
            match self.first_say(count, ["", ""]) {
                Said::Other if self.left == 0 => return None,
                Said::Other => {}
                said => return Some((count, said)),
            }
        }
        None
    }

    fn first_say(&mut self, count: usize, [before, after]: [&str; 2]) -> Said {
        let tokens = &self.tokens[..count];
        let end = tokens.last().map_or(0, |token| token.end);
        if end == 0 {
            return Said::Parses;
        }
        let closing = tokens::closing(self.code, tokens);
        self.says(format!("{}{before}{closing}{after}", &self.code[..end]).as_bytes())
    }

    /// Without the uses of private names after the first of them that is wrong, the error is the same.
    fn private(&mut self) -> Option<Range<usize>> {
        let text = |token: &Range<usize>| &self.code[token.clone()];
        let uses = self.tokens.windows(3).filter(|three| {
            text(&three[1]).starts_with('#') && (text(&three[0]) == "." || text(&three[2]) == "in")
        });
        let uses: Vec<Range<usize>> = uses.map(|three| three[1].clone()).collect();
        let (mut good, mut bad) = (0, uses.len());
        while bad - good > 1 && self.left > 0 {
            let middle = usize::midpoint(good, bad);
            let mut code = self.code.as_bytes().to_vec();
            for private in &uses[middle..] {
                code[private.start] = b'$';
            }
            match self.says(&code) {
                Said::Same => bad = middle,
                _ => good = middle,
            }
        }
        let (first, last) = (uses.get(good)?, uses.get(bad.checked_sub(1)?)?);
        Some(first.start..last.start)
    }

    fn says(&mut self, code: &[u8]) -> Said {
        let Some(left) = self.left.checked_sub(code.len()) else {
            self.left = 0;
            return Said::Other;
        };
        self.left = left;
        let parser = &mut Parser::new(Source::from_bytes(code));
        match parser.parse_script(&Scope::new_global(), &mut Interner::default()) {
            Ok(_) => Said::Parses,
            Err(error) if error.to_string() == self.words => Said::Same,
            Err(_) => Said::Other,
        }
    }
}
