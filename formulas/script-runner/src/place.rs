//! Places in a script. The engine counts columns in bytes; whoever reads of them counts characters.

/// The byte of a script at the first place that a stack names, such as `    at formula.js:3:7`.
pub fn first(stack: &str, code: &str) -> Option<usize> {
    let (_, rest) = stack.split_once("formula.js:")?;
    let mut numbers = rest.split(|c: char| !c.is_ascii_digit());
    let line: usize = numbers.next()?.parse().ok()?;
    let column: usize = numbers.next()?.parse().ok()?;
    let start = match line.checked_sub(2) {
        None => 0,
        Some(breaks) => code.match_indices('\n').nth(breaks)?.0 + 1,
    };
    let at = (start + column.checked_sub(1)?).min(code.len());
    Some(code.floor_char_boundary(at))
}

/// The line and the column of a byte of a script, both from 1.
pub fn of(code: &str, at: usize) -> (usize, usize) {
    let before = &code[..at];
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

/// The byte at which the name begins that ends last before a byte; that byte itself, if none does.
pub fn of_name_before(code: &str, at: usize) -> usize {
    let before = code[..at].trim_end();
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    let name = before.trim_end_matches(is_of_name);
    if name.len() < before.len() { name.len() } else { at }
}
