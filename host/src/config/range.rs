//! Numbers with a least and a most, from wherever they come: what is outside is refused before anything is opened.

use super::{ConfigError, Settings};
use crate::limits::OPTION_MB_MAX;

impl Settings {
    /// Refuses numbers that nothing works with. Zero stays where it means none or no limit.
    pub(super) fn within_range(self) -> Result<Self, ConfigError> {
        for (option, given, least, most) in [
            ("cache-mb", self.cache_mb, 1, OPTION_MB_MAX),
            ("compiled-cache-mb", self.compiled_cache_mb, 0, OPTION_MB_MAX),
            ("reactor-memory-mb", self.memory.reactors_mb, 1, OPTION_MB_MAX),
            ("programs-memory-mb", self.memory.programs_mb, 1, OPTION_MB_MAX),
            ("reactor-fuel-per-ms", self.reactor_fuel_per_ms, 1, u64::MAX),
            ("root-key-command-seconds", self.root_key_command_seconds, 1, u64::MAX),
        ] {
            if !(least..=most).contains(&given) {
                return Err(ConfigError::OutOfRange { option, least, most });
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use crate::config::Options;

    /// What is said of a member of the file.
    fn said(name: &str, value: u64) -> Option<String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "data-dir = \"kept\"\n{name} = {value}").unwrap();
        let options = Options { config: Some(file.path().to_owned()), ..Options::default() };
        options.settle().err().map(|error| error.to_string())
    }

    #[test]
    fn a_number_that_nothing_works_with_is_refused_by_name() {
        let most = 1 << 24;
        for (name, least) in [
            ("cache-mb", 1),
            ("compiled-cache-mb", 0),
            ("reactor-memory-mb", 1),
            ("programs-memory-mb", 1),
        ] {
            let refusal = Some(format!("--{name} must be from {least} to 16777216"));
            assert_eq!((said(name, least), said(name, most)), (None, None), "{name}");
            // The second is nothing at all once it is counted in bytes.
            for wrong in [most + 1, 1 << 44] {
                assert_eq!(said(name, wrong), refusal);
            }
            assert_eq!(said(name, 0), refusal.filter(|_| least > 0));
        }
        for name in ["reactor-fuel-per-ms", "root-key-command-seconds"] {
            assert_eq!(said(name, 1), None);
            assert!(said(name, 0).unwrap().starts_with(&format!("--{name} must be from 1 to ")));
        }
        for name in ["compact-seconds", "reactor-slots", "reactor-jobs", "connections-max"] {
            assert_eq!(said(name, 0), None, "{name}");
        }
    }

    #[test]
    fn flags_are_held_to_the_same() {
        let flags =
            Options { data_dir: Some("kept".into()), cache_mb: Some(0), ..Options::default() };
        let error = flags.settle().unwrap_err().to_string();
        assert_eq!(error, "--cache-mb must be from 1 to 16777216");
    }
}
