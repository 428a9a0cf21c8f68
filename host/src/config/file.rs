//! What is told of a file that holds something else than options.

use clap::Args as _;

use super::Options;

/// What is wrong, at which byte, and of which option. No value is repeated: it may be a key, given in the wrong place.
pub fn told(text: &str, wrong: &str, byte: Option<usize>) -> String {
    let wrong = without_texts(wrong);
    let Some(before) = byte.and_then(|byte| text.get(..byte)) else { return wrong };
    let at = before.matches('\n').count();
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let option = text.lines().nth(at).and_then(option_of);
    let option = option.map(|name| format!(", {name}")).unwrap_or_default();
    format!("line {}, column {column}{option}: {wrong}", at + 1)
}

/// The option that a line is about, if there is such a one.
fn option_of(line: &str) -> Option<String> {
    let name = line.split_once('=')?.0.trim();
    let known = Options::augment_args(clap::Command::new("options"));
    known.get_arguments().find(|option| option.get_long() == Some(name))?;
    Some(name.to_owned())
}

/// A message without the values that it quotes: texts in quotation marks, and numbers and words in backticks, which are the
/// first there.
fn without_texts(message: &str) -> String {
    let cut = |mark: char, begin: usize, end: usize| {
        format!("{}{mark}…{mark}{}", &message[..begin], &message[end + 1..])
    };
    if let (Some(begin), Some(end)) = (message.find('"'), message.rfind('"'))
        && begin < end
    {
        return cut('"', begin, end);
    }
    let of_values = ["unknown variant ", "invalid type: ", "invalid value: ", "invalid length "];
    let is_of_value = of_values.iter().any(|begin| message.starts_with(begin));
    match message.match_indices('`').map(|(at, _)| at).take(2).collect::<Vec<_>>()[..] {
        [begin, end] if is_of_value => cut('`', begin, end),
        _ => message.to_owned(),
    }
}
