//! What to do, and how much of it.

/// The round that is asked for.
pub struct Options {
    /// `kill -9`s.
    pub kills: usize,
    /// Power cuts of each kind.
    pub cuts: usize,
    /// Where randomness begins.
    pub seed: u64,
    only: Option<Vec<String>>,
}

impl Options {
    /// Reads arguments. `None` if they are a test runner's that ask for single tests: there are none here.
    pub fn parse(arguments: impl Iterator<Item = String>) -> Option<Self> {
        let mut options = Self { kills: 8, cuts: 4, seed: 1, only: None };
        let mut arguments = arguments.peekable();
        while let Some(argument) = arguments.next() {
            let mut number = || {
                let text = arguments.next().unwrap_or_else(|| panic!("{argument} needs a number"));
                text.parse::<usize>().unwrap_or_else(|_| panic!("{argument} needs a number"))
            };
            match argument.as_str() {
                "--long" => (options.kills, options.cuts) = (1_000, 500),
                "--kills" => options.kills = number(),
                "--cuts" => options.cuts = number(),
                "--seed" => options.seed = number() as u64,
                "--only" => {
                    let text = arguments.next().expect("--only needs a list");
                    options.only = Some(text.split(',').map(str::to_owned).collect());
                }
                _ => return None,
            }
        }
        Some(options)
    }

    /// Whether this part is asked for.
    pub fn does(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|one| one == part))
    }
}

/// Numbers that look random and are the same for the same seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn throw(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.throw() % (end.max(1) as u64)).unwrap()
    }
}
