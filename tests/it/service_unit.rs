//! The systemd unit that is shipped, and what it tells to type.

use std::fs;
use std::path::Path;

fn unit() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    fs::read_to_string(root.join("examples/operation/tokamak.service")).unwrap()
}

/// The commands in the comments, each in one line.
fn commands(unit: &str) -> Vec<String> {
    let comments: Vec<_> = unit.lines().filter_map(|line| line.strip_prefix("#   ")).collect();
    let joined = comments.join("\n").replace("\\\n", " ");
    joined.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn the_unit_lets_the_server_confine_itself() {
    let unit = unit();
    let allowed = unit.lines().find_map(|line| line.strip_prefix("SystemCallFilter=")).unwrap();
    let calls: Vec<_> = allowed.split(' ').collect();
    assert_eq!(calls[0], "@system-service");
    let confining =
        ["landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"];
    for call in confining {
        assert!(calls.contains(&call), "{call} is not in {allowed}");
    }
}

#[test]
fn a_command_on_the_folder_of_a_stopped_service_is_its_user_with_its_credential() {
    let unit = unit();
    let commands = commands(&unit);
    let run: Vec<_> = commands.iter().filter(|line| line.starts_with("systemd-run ")).collect();
    let [run] = run.as_slice() else { panic!("{commands:?}") };
    let settings: Vec<_> = unit.lines().filter(|line| !line.starts_with('#')).collect();
    let mut told = 0;
    for words in run.split(' ').collect::<Vec<_>>().windows(2) {
        if words[0] == "-p" {
            assert!(settings.contains(&words[1]), "the unit has no {}", words[1]);
            told += 1;
        }
    }
    // Without any of these the command is somebody else, opens the folder to others, or lacks the key.
    for name in [
        "DynamicUser",
        "User",
        "StateDirectory",
        "StateDirectoryMode",
        "UMask",
        "LoadCredentialEncrypted",
    ] {
        assert!(run.contains(&format!("-p {name}=")), "{name} is not in {run}");
    }
    assert_eq!(told, 6, "{run}");
    let exec = settings.iter().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let program = exec.split(' ').next().unwrap();
    assert!(run.contains(&format!(" {program} ")), "{run}");
    // What stands for these in the unit is not put in what a shell was given.
    assert!(exec.contains("%S/tokamak") && run.contains("/var/lib/tokamak"), "{run}");
    assert!(exec.contains("%d/root-key"), "{exec}");
    assert!(run.ends_with("--root-key-file '${CREDENTIALS_DIRECTORY}/root-key'"), "{run}");
}
