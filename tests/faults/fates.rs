//! What is known of every token: what was asked for, and what was acknowledged.

use std::collections::{BTreeMap, BTreeSet};

/// Log entries of each token, by what they say was done: `create`, `update`, `delete`.
pub type Logged = BTreeMap<String, BTreeMap<String, u64>>;

/// Everything that was asked for and acknowledged up to some moment.
#[derive(Default, Clone)]
pub struct Fates {
    tokens: BTreeMap<String, Fate>,
    /// Accepted runs.
    pub jobs: BTreeSet<String>,
    acknowledged: usize,
}

#[derive(Default, Clone)]
struct Fate {
    /// The newest contents that were asked for.
    asked: u64,
    /// The newest contents that were acknowledged; 0 for none.
    kept: u64,
    deleting: bool,
    deleted: bool,
}

/// A moment in the life of a token or a run, as a line.
pub enum Moment<'a> {
    /// These contents are asked for.
    Asked(&'a str, u64),
    /// They were acknowledged.
    Kept(&'a str, u64),
    /// Deletion is asked for.
    Deleting(&'a str),
    /// It was acknowledged.
    Deleted(&'a str),
    /// A run was accepted.
    Accepted(&'a str),
}

impl Moment<'_> {
    pub fn line(&self) -> String {
        match self {
            Self::Asked(id, number) => format!("asked {id} {number}\n"),
            Self::Kept(id, number) => format!("kept {id} {number}\n"),
            Self::Deleting(id) => format!("deleting {id}\n"),
            Self::Deleted(id) => format!("deleted {id}\n"),
            Self::Accepted(id) => format!("accepted {id}\n"),
        }
    }
}

impl Fates {
    /// Takes in a line.
    pub fn learn(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let (Some(what), Some(id)) = (words.next(), words.next()) else { return };
        if what == "accepted" {
            self.acknowledged += 1;
            self.jobs.insert(id.to_owned());
            return;
        }
        let fate = self.tokens.entry(id.to_owned()).or_default();
        let mut number = || words.next().unwrap().parse().unwrap();
        match what {
            "asked" => fate.asked = number(),
            "kept" => fate.kept = number(),
            "deleting" => fate.deleting = true,
            "deleted" => fate.deleted = true,
            other => panic!("{other} is no moment"),
        }
        self.acknowledged += usize::from(matches!(what, "kept" | "deleted"));
    }

    /// How much was acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged
    }

    /// What is not as it was acknowledged, given the contents of every token that is there, and what the log says of them.
    pub fn lost(&self, there: &BTreeMap<String, u64>, logged: &Logged) -> Vec<String> {
        let mut lost = Vec::new();
        for (id, fate) in &self.tokens {
            match there.get(id) {
                Some(_) if fate.deleted => lost.push(format!("{id} is there although deleted")),
                Some(found) if *found < fate.kept || *found > fate.asked => lost.push(format!(
                    "{id} has contents {found}, of {} acknowledged and {} asked for",
                    fate.kept, fate.asked
                )),
                None if fate.kept > 0 && !fate.deleting => lost.push(format!("{id} is not there")),
                _ => {}
            }
            // Contents are numbered from 1, and each is asked for once the one before was acknowledged.
            let done = [
                ("create", u64::from(fate.kept > 0)),
                ("update", fate.kept.saturating_sub(1)),
                ("delete", u64::from(fate.deleted)),
            ];
            for (operation, acknowledged) in done {
                let entries = logged.get(id).and_then(|of| of.get(operation)).copied();
                if entries.unwrap_or_default() < acknowledged {
                    lost.push(format!(
                        "{id} has {entries:?} log entries of {acknowledged} times {operation}"
                    ));
                }
            }
        }
        lost
    }
}
