use super::{ConfigError, LogFormat, Options, Rate, RateLimits};
use clap::{Args as _, FromArgMatches as _};
use std::io::Write as _;

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn settle(text: &str, flags: Options) -> Result<super::Settings, ConfigError> {
    let file = file(text);
    Options { config: Some(file.path().to_owned()), ..flags }.settle()
}

#[test]
fn flags_go_before_the_file_and_the_file_before_defaults() {
    let flags = Options { cache_mb: Some(7), ..Options::default() };
    let text = "data-dir = \"kept\"\ncache-mb = 9\nlog-format = \"json\"\n";
    let settings = settle(text, flags).unwrap();
    assert_eq!(settings.cache_mb, 7);
    assert_eq!(settings.data_dir.to_str(), Some("kept"));
    assert_eq!(settings.log_format, LogFormat::Json);
    assert_eq!(settings.listen.to_string(), "127.0.0.1:8080");
}

/// The options as a command line gives them.
fn parse(flags: &[&str]) -> Result<Options, clap::Error> {
    let command = Options::augment_args(clap::Command::new("tokamak"));
    let flags = [&["tokamak", "--data-dir", "kept"], flags].concat();
    Options::from_arg_matches(&command.try_get_matches_from(flags)?)
}

#[test]
fn what_is_opened_is_opened_by_name() {
    let opened = |flags: &[&str], text: &str| {
        let settings = settle(text, parse(flags).unwrap()).unwrap();
        (settings.allow_private_networks, settings.allow_http_callbacks)
    };
    let file = "allow-private-networks = true\n";
    for (flags, text, expected) in [
        (&[][..], "", (false, false)),
        (&["--allow-private-networks"], "", (true, false)),
        (&["--allow-http-callbacks"], "", (false, true)),
        (&["--allow-http-callbacks=true", "--allow-private-networks=0"], "", (false, true)),
        (&[], file, (true, false)),
        (&["--allow-private-networks=false"], file, (false, false)),
    ] {
        assert_eq!(opened(flags, text), expected, "{flags:?} {text:?}");
    }
    for wrong in ["--allow-private-networks=maybe", "--allow-http-callbacks=", "--allow-private"] {
        assert!(parse(&[wrong]).is_err(), "{wrong}");
    }
    assert!(settle("allow-private-networks = \"yes\"\n", Options::default()).is_err());
}

#[test]
fn networks_are_opened_one_by_one() {
    let opened = |flags: &[&str], text: &str| {
        let networks = settle(text, parse(flags).unwrap()).unwrap().allow_networks;
        networks.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let file = "allow-networks = [\"10.0.0.0/8\", \"fd12::/16\"]\n";
    for (flags, text, expected) in [
        (&[][..], "", &[][..]),
        (&["--allow-networks", "10.0.0.0/8"], "", &["10.0.0.0/8"]),
        (&["--allow-networks=10.0.0.0/8,::1"], "", &["10.0.0.0/8", "::1/128"]),
        (
            &["--allow-networks", "10.0.0.0/8", "--allow-networks", "192.168.1.0/24,10.1.2.3"],
            "",
            &["10.0.0.0/8", "192.168.1.0/24", "10.1.2.3/32"],
        ),
        (&[], file, &["10.0.0.0/8", "fd12::/16"]),
        (&["--allow-networks", "127.0.0.1"], file, &["127.0.0.1/32"]),
    ] {
        assert_eq!(opened(flags, text), expected, "{flags:?} {text:?}");
    }
    for wrong in ["10.1.2.3/8", "localhost", "", "10.0.0.0/8,", "10.0.0.0/8 ::1"] {
        assert!(parse(&["--allow-networks", wrong]).is_err(), "{wrong}");
    }
    for wrong in ["[\"10.1.2.3/8\"]", "[8]", "\"10.0.0.0/8\""] {
        let text = format!("allow-networks = {wrong}\n");
        let error = settle(&text, Options::default()).unwrap_err().to_string();
        assert!(error.contains("allow-networks"), "{error}");
    }
}

#[test]
fn an_unknown_option_in_the_file_is_named() {
    let error = settle("data-dir = \"a\"\nlissten = \"b\"\n", Options::default()).unwrap_err();
    assert!(error.to_string().contains("lissten"), "{error}");
    let error = settle("", Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "--data-dir is required");
}

#[test]
fn memory_comes_from_flags_the_file_and_the_machine() {
    let flags = parse(&["--reactor-memory-mb", "100"]).unwrap();
    let text = "reactor-memory-mb = 200\nprograms-memory-mb = 300\n";
    let memory = settle(text, flags).unwrap().memory;
    assert_eq!((memory.reactors_mb, memory.programs_mb), (100, 300));
    let memory = settle("", parse(&[]).unwrap()).unwrap().memory;
    assert!(memory.reactors_mb >= 512 && memory.programs_mb == 512, "{memory:?}");
    for wrong in ["--reactor-memory-mb=-1", "--programs-memory-mb=much"] {
        assert!(parse(&[wrong]).is_err(), "{wrong}");
    }
}

#[test]
fn limits_come_from_flags_and_the_file() {
    let flags = Options {
        reactor_slots_per_tenant: Some(3),
        rate_limit_write: Some(Rate { per_second: 5, burst: 9 }),
        ..Options::default()
    };
    let text = "data-dir = \"kept\"\nreactor-slots-per-tenant = 4\nreactor-queue-per-tenant = 0\n\
        rate-limit-read = 7\nrate-limit-write = 8\nrate-limit-invoke = \"1:2\"\n\
        rate-limit-tenant = \"30:40\"\n";
    let settings = settle(text, flags).unwrap();
    assert_eq!(settings.reactor_slots_per_tenant, Some(3));
    assert_eq!(settings.reactor_queue_per_tenant, Some(0));
    let expected = RateLimits {
        read: 7.into(),
        write: Rate { per_second: 5, burst: 9 },
        invoke: Rate { per_second: 1, burst: 2 },
        tenant: Rate { per_second: 30, burst: 40 },
        unknown_keys: 20,
        ..RateLimits::default()
    };
    assert_eq!(settings.rates, expected);
    let settings = settle("data-dir = \"kept\"\n", Options::default()).unwrap();
    assert_eq!(settings.rates, RateLimits { unknown_keys: 20, ..RateLimits::default() });
    assert_eq!(settings.reactor_slots_per_tenant, None);
    for wrong in ["-1", "1.5", "\"5:0\"", "\"often\"", "true"] {
        let text = format!("data-dir = \"kept\"\nrate-limit-search = {wrong}\n");
        let error = settle(&text, Options::default()).unwrap_err().to_string();
        assert!(error.contains("rate-limit-search"), "{error}");
    }
}

#[test]
fn keys_and_compaction_have_bounds_of_time() {
    let settings = settle("", parse(&[]).unwrap()).unwrap();
    assert_eq!((settings.compact_seconds, settings.root_key_command_seconds), (86_400, 60));
    let flags = parse(&["--compact-seconds", "0", "--root-key-command", "get key"]).unwrap();
    let text = "compact-seconds = 9\nroot-key-command-seconds = 5\nroot-key-command = \"other\"\n";
    let settings = settle(text, flags).unwrap();
    assert_eq!((settings.compact_seconds, settings.root_key_command_seconds), (0, 5));
    assert_eq!(settings.root_key_command.as_deref(), Some("get key"));
}

#[test]
fn what_is_wrong_in_the_file_has_a_place_and_no_value_is_repeated() {
    for (text, place, word) in [
        ("log = \"info\"\nroot-key = \"hunter2\"", "line 2, column 1: ", "root-key"),
        ("otlp-endpoint = \"https://hunter2@c:4318", "line 1, column ", "invalid"),
        ("\n\n  cache-mb = \"hunter2\"", "line 3, column 14, cache-mb: ", "invalid type"),
        ("log-format = \"hunter2\"", "line 1, column 14, log-format: ", "`json`"),
        ("cache-mb = -734", "line 1, column 12, cache-mb: ", "u64"),
        ("cache-mb = \"a\" # \"hunter2\"", "line 1, column 12, cache-mb: ", "u64"),
        ("cache-mb = 1\nlisten = \"hunter2\"", "line 2, column 10, listen: ", "127.0.0.1:8080"),
        ("hunter2", "line 1, column ", "="),
    ] {
        let told = settle(text, Options::default()).unwrap_err().to_string();
        assert!(told.contains(&format!(": {place}")) && told.contains(word), "{text}: {told}");
        assert!(!told.contains("hunter2") && !told.contains("734"), "{told}");
    }
}
