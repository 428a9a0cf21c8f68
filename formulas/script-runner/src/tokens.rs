//! A script cut into words, texts and signs, to tell places: no parser, and wrong where only one would know, such as whether
//! a slash after `)` divides. So whoever asks lets the engine confirm what comes of it.

use core::ops::Range;

/// Words after which a slash begins a pattern.
const BEFORE_PATTERNS: &[&str] = &[
    "return",
    "typeof",
    "case",
    "in",
    "of",
    "delete",
    "void",
    "throw",
    "new",
    "do",
    "else",
    "yield",
    "await",
    "instanceof",
];

/// The ranges of a script's tokens in bytes, each sign by itself; a template is cut at what is put into it.
pub fn of(code: &str) -> Vec<Range<usize>> {
    let mut cutter = Cutter { code, at: 0, found: Vec::new(), open: Vec::new() };
    if code.starts_with("#!") {
        cutter.at = code.find('\n').unwrap_or(code.len());
    }
    while cutter.step() {}
    cutter.found
}

/// What closes that which these tokens open, so that they may parse by themselves.
pub fn closing(code: &str, tokens: &[Range<usize>]) -> String {
    let text = |index: Option<usize>| {
        index.and_then(|index| tokens.get(index)).map_or("", |token| &code[token.clone()])
    };
    let mut open: Vec<&str> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let before = text(index.checked_sub(1));
        match &code[token.clone()] {
            "(" if matches!(before, "if" | "for" | "while" | "with" | "await") => open.push(");"),
            "(" if matches!(before, "catch" | "switch") => open.push("){}"),
            "(" => open.push(")"),
            "[" => open.push("]"),
            "{" if before == "try" => open.push("}finally{}"),
            "{" if before == "do" => open.push("}while(0)"),
            "{" => open.push("}"),
            ")" | "]" | "}" => drop(open.pop()),
            part if part.starts_with('`') && part.ends_with("${") => open.push("}`"),
            part if part.len() > 1 && part.starts_with('}') && part.ends_with('`') => {
                open.pop();
            }
            _ => {}
        }
    }
    open.into_iter().rev().collect()
}

struct Cutter<'a> {
    code: &'a str,
    at: usize,
    found: Vec<Range<usize>>,
    /// For each brace that is open whether a template goes on where it closes.
    open: Vec<bool>,
}

impl Cutter<'_> {
    /// Takes what comes next; false at the end.
    fn step(&mut self) -> bool {
        let rest = &self.code[self.at..];
        let Some(first) = rest.chars().next() else { return false };
        if let Some(skipped) = skipped(rest) {
            self.at += skipped;
            return true;
        }
        let length = match first {
            '\'' | '"' => quoted(rest, first),
            '`' => self.template(rest),
            '}' if self.open.pop() == Some(true) => self.template(rest),
            '/' if self.begins_pattern() => pattern(rest).unwrap_or(1),
            _ if is_of_word(first) => rest.find(|c| !is_of_word(c)).unwrap_or(rest.len()),
            _ => {
                if first == '{' {
                    self.open.push(false);
                }
                first.len_utf8()
            }
        };
        self.found.push(self.at..self.at + length);
        self.at += length;
        true
    }

    /// The length of a template, or of its part up to what is put into it; it begins with the mark before it.
    fn template(&mut self, rest: &str) -> usize {
        let mut before = None;
        for (at, c) in rest.char_indices().skip(1) {
            match (before, c) {
                (Some('\\'), _) => before = None,
                (_, '`') => return at + 1,
                (Some('$'), '{') => {
                    self.open.push(true);
                    return at + 1;
                }
                _ => before = Some(c),
            }
        }
        rest.len()
    }

    fn begins_pattern(&self) -> bool {
        let before = self.found.last().map_or("", |token| &self.code[token.clone()]);
        match before.chars().next() {
            Some('\'' | '"' | '`' | ')' | ']' | '/') => false,
            Some(c) if is_of_word(c) => BEFORE_PATTERNS.contains(&before),
            _ => !before.ends_with('`'),
        }
    }
}

/// The length of the blank or comment at the beginning.
fn skipped(rest: &str) -> Option<usize> {
    let end = |found: Option<usize>| Some(found.unwrap_or(rest.len()));
    if rest.starts_with("//") {
        return end(rest.find(['\n', '\r', '\u{2028}', '\u{2029}']));
    }
    if let Some(comment) = rest.strip_prefix("/*") {
        return end(comment.find("*/").map(|at| at + 4));
    }
    let blank = |c: char| c.is_whitespace() || c == '\u{feff}';
    if rest.starts_with(blank) { end(rest.find(|c| !blank(c))) } else { None }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '#' | '\\' | '\u{200c}' | '\u{200d}')
}

/// The length of a text in quotes, which ends with its line if it is never closed.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' => return at,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of a pattern, without its flags; none if it does not end in its line.
fn pattern(rest: &str) -> Option<usize> {
    let (mut escaped, mut in_class) = (false, false);
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '/' if !in_class => return Some(at + 1),
            _ => {}
        }
    }
    None
}
