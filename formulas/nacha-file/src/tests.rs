//! A file checked by hand against the layout, and what holds for every file.

use tokamak_sdk::testing::{Call, Outcome};
use tokamak_sdk::{ErrorKind, Value, json};

use super::react;

/// 2026-11-30, 23:59 UTC.
const NOW_MS: u64 = 1_796_083_140_000;

fn configuration() -> Value {
    json!({
        "immediate_destination": "091000019",
        "immediate_destination_name": "First Example Bank",
        "immediate_origin": "1234567890",
        "immediate_origin_name": "Example Sender",
        "company_name": "Long Company Name Inc.",
        "company_identification": "1123456789",
        "company_entry_description": "Payroll",
        "originating_dfi_identification": "09100001",
        "standard_entry_class_code": "PPD",
        "return_file": "raw",
    })
}

fn entry(routing_number: &str, account_number: &str, cents: u64) -> Value {
    json!({
        "bank": { "routing_number": routing_number, "account_number": account_number },
        "amount_cents": cents,
        "name": "Ada Lovelace",
        "account_type": "checking",
        "kind": "credit",
    })
}

fn with(mut value: Value, members: Value) -> Value {
    let Value::Object(members) = members else { panic!("members of an object") };
    for (name, member) in members {
        value[name] = member;
    }
    value
}

fn args(entries: &[Value]) -> Value {
    json!({ "entries": entries, "effective_entry_date": "2026-12-01" })
}

fn call(args: &Value, configuration: &Value) -> Outcome {
    Call::new(args).configuration(configuration).at_ms(NOW_MS).run(react)
}

fn file_of(args: &Value) -> (Vec<String>, Value) {
    let raw = call(args, &configuration()).raw();
    let text = raw["file"].as_str().unwrap();
    assert!(text.ends_with('\n'));
    (text.lines().map(str::to_owned).collect(), raw["file_summary"].clone())
}

fn three_entries() -> Value {
    args(&[
        with(entry("021000021", "9876543210", 125_000), json!({ "individual_id": "E-1" })),
        with(
            entry("011000015", "12345678901234567", 99),
            json!({ "name": "Grace Brewster Murray Hopper", "account_type": "savings", "kind": "debit" }),
        ),
        with(
            entry("322271627", "1", 0),
            json!({ "name": "Zoë Łącka", "account_type": "savings", "prenote": true, "amount_cents": null }),
        ),
    ])
}

/// Written field by field from the layout, not by the code under test.
const THREE_ENTRIES: [&str; 7] = [
    "101 09100001912345678902611302359A094101FIRST EXAMPLE BANK     EXAMPLE SENDER                 ",
    "5200LONG COMPANY NAM                    1123456789PPDPAYROLL         261201   1091000010000001",
    "6220210000219876543210       0000125000E-1            ADA LOVELACE            0091000010000001",
    "637011000015123456789012345670000000099               GRACE BREWSTER MURRAY   0091000010000002",
    "6333222716271                0000000000               ZOE LACKA               0091000010000003",
    "820000000300354271650000000000990000001250001123456789                         091000010000001",
    "9000001000001000000030035427165000000000099000000125000                                       ",
];

#[test]
fn a_file_checked_by_hand() {
    let (lines, summary) = file_of(&three_entries());
    assert_eq!(lines[..7], THREE_ENTRIES);
    assert_eq!(lines[7..], ["9".repeat(94), "9".repeat(94), "9".repeat(94)]);
    assert_eq!(
        summary,
        json!({
            "entry_count": 3, "total_debit_cents": 99, "total_credit_cents": 125_000,
            "entry_hash": "0035427165", "batch_count": 1, "block_count": 1,
        })
    );
}

#[test]
fn the_file_leaves_as_a_token_unless_the_text_is_asked_for() {
    let given = call(&three_entries(), &configuration());
    assert_eq!(given.tokenize(), Value::Null);
    let mut settings = configuration();
    settings.as_object_mut().unwrap().remove("return_file");
    let kept = call(&three_entries(), &settings);
    assert_eq!(
        kept.tokenize(),
        json!({ "file": {
            "type": "token", "data": given.raw()["file"], "containers": ["/bank/high/"],
        } })
    );
    assert_eq!(kept.raw(), json!({ "file_summary": given.raw()["file_summary"] }));
    assert!(!kept.raw().to_string().contains("9876543210"));
    assert_eq!(kept.lines(), ["3 entries in 1 blocks"]);
}

#[test]
fn the_file_is_kept_where_the_owner_says() {
    let kept = |container: Value| {
        call(
            &three_entries(),
            &with(configuration(), json!({ "return_file": "token", "container": container })),
        )
    };
    for (container, expected) in [
        (json!("/Payments/ach_2-files/"), "/Payments/ach_2-files/"),
        (json!("/"), "/"),
        (json!(null), "/bank/high/"),
    ] {
        assert_eq!(kept(container).tokenize()["file"]["containers"], json!([expected]));
    }
    // What the vault would refuse when the file is made is refused before.
    let deepest = format!("/{}", "s/".repeat(16));
    let longest = format!("/{}/", "l".repeat(398));
    for container in [&deepest, &longest] {
        assert_eq!(kept(json!(container)).tokenize()["file"]["containers"], json!([container]));
    }
    let (deeper, longer) = (format!("{deepest}s/"), format!("/l{}", &longest[1..]));
    for wrong in ["", "//", "/a//b/", "a/", "/a", "/a b/", "/ä/", "/{{ data }}/", &deeper, &longer]
    {
        let outcome = kept(json!(wrong));
        assert_eq!(outcome.error().messages("configuration.container").len(), 1, "{wrong}");
    }
}

#[test]
fn what_identifies_is_neither_cut_nor_altered() {
    let id = |id: &str| args(&[with(entry("021000021", "1", 1), json!({ "individual_id": id }))]);
    for (given, written) in [
        (" employee-000017 ", "EMPLOYEE-000017"),
        ("e_17", "E_17           "),
        (" ", "               "),
    ] {
        assert_eq!(file_of(&id(given)).0[2][39..54], *written);
    }
    let message = "must have at most 15 characters, all of them printable ASCII";
    for given in ["employee-0000017", "李0000017", "æ0000017", "0000017\t"] {
        let outcome = call(&id(given), &configuration());
        assert_eq!(outcome.error().messages("args.entries[0].individual_id"), [message], "{given}");
        assert!(!format!("{:?}", outcome.error()).contains("0000017"));
    }
    for name in ["immediate_origin", "company_identification"] {
        let written = |value: &str| {
            let outcome = call(&three_entries(), &with(configuration(), json!({ name: value })));
            outcome.raw()["file"].as_str().unwrap().contains("A_1")
        };
        assert!(written("a_1"), "{name}");
        for wrong in ["李17", "é17", "1\u{a0}7", "12345678901"] {
            let outcome = call(&three_entries(), &with(configuration(), json!({ name: wrong })));
            let member = format!("configuration.{name}");
            let message = "must have 1 to 10 characters, all of them printable ASCII";
            assert_eq!(outcome.error().messages(&member), [message], "{wrong}");
        }
    }
}

#[test]
fn codes_follow_from_the_entries() {
    let code = |account_type: &str, kind: &str, prenote: bool| {
        let cents = u64::from(!prenote);
        let members = json!({ "account_type": account_type, "kind": kind, "prenote": prenote });
        let (lines, _) = file_of(&args(&[with(entry("021000021", "1", cents), members)]));
        assert_eq!(lines[1][1..4], lines[3][1..4]);
        (lines[1][1..4].to_owned(), lines[2][1..3].to_owned())
    };
    let table = [
        ("checking", "credit", false, "220", "22"),
        ("checking", "credit", true, "220", "23"),
        ("checking", "debit", false, "225", "27"),
        ("checking", "debit", true, "225", "28"),
        ("savings", "credit", false, "220", "32"),
        ("savings", "credit", true, "220", "33"),
        ("savings", "debit", false, "225", "37"),
        ("savings", "debit", true, "225", "38"),
    ];
    for (account_type, kind, prenote, service, transaction) in table {
        let expected = (service.to_owned(), transaction.to_owned());
        assert_eq!(code(account_type, kind, prenote), expected, "{account_type} {kind} {prenote}");
    }
}

#[test]
fn every_file_is_whole_blocks_of_whole_lines_with_right_totals() {
    let banks = ["021000021", "011000015", "322271627", "091000019"];
    for count in [1, 5, 6, 7, 16, 17, 250, 1_000] {
        let entries: Vec<Value> = (0..count)
            .map(|index| {
                let kind = if index % 3 == 0 { "debit" } else { "credit" };
                let cents = 1 + index as u64 * 7_919 % 1_000_003;
                with(entry(banks[index % 4], &index.to_string(), cents), json!({ "kind": kind }))
            })
            .collect();
        let (lines, summary) = file_of(&args(&entries));
        assert!(lines.iter().all(|line| line.len() == 94 && line.is_ascii()));
        assert_eq!(lines.len() % 10, 0);
        assert_eq!(lines.len() / 10, (count + 4).div_ceil(10));

        let details: Vec<&String> = lines.iter().filter(|line| line.starts_with('6')).collect();
        assert_eq!(details.len(), count);
        let number =
            |line: &str, from: usize, to: usize| line[from - 1..to].parse::<u64>().unwrap();
        let sum = |code: &str| -> u64 {
            let of_code = details.iter().filter(|line| &line[1..3] == code);
            of_code.map(|line| number(line, 30, 39)).sum()
        };
        let hash: u64 =
            details.iter().map(|line| number(line, 4, 11)).sum::<u64>() % 10_u64.pow(10);
        let (batch, file) = (&lines[count + 2], &lines[count + 3]);
        assert_eq!(number(batch, 5, 10), count as u64);
        assert_eq!(number(file, 14, 21), count as u64);
        for (control, from) in [(batch, 11), (file, 22)] {
            assert_eq!(number(control, from, from + 9), hash);
            assert_eq!(number(control, from + 10, from + 21), sum("27"));
            assert_eq!(number(control, from + 22, from + 33), sum("22"));
        }
        assert_eq!(number(file, 8, 13), lines.len() as u64 / 10);
        assert_eq!(summary["total_debit_cents"], sum("27"));
        assert_eq!(summary["total_credit_cents"], sum("22"));
        assert_eq!(summary["entry_hash"], format!("{hash:010}"));
        for (sequence, line) in (1..).zip(&details) {
            assert_eq!(line[79..87], *"09100001");
            assert_eq!(number(line, 88, 94), sequence);
        }
    }
}

#[test]
fn the_hash_keeps_ten_digits() {
    let entries = vec![entry("322271627", "1", 1); 400];
    let (_, summary) = file_of(&args(&entries));
    assert_eq!(summary["entry_hash"], "2890864800"); // 400 × 32227162 = 12890864800
}

#[test]
fn the_largest_numbers_fit_and_larger_ones_are_refused() {
    let (lines, _) = file_of(&args(&[entry("021000021", "1", 9_999_999_999)]));
    assert_eq!(lines[2][29..39], *"9999999999");
    let too_much = vec![entry("021000021", "1", 9_999_999_999); 101];
    let faults = call(&args(&too_much), &configuration());
    assert_eq!(faults.error().messages("args.entries").len(), 1);
    let mut just_enough = vec![entry("021000021", "1", 9_999_999_999); 100];
    just_enough.push(entry("021000021", "1", 99));
    let (lines, _) = file_of(&args(&just_enough));
    assert_eq!(lines[104][43..55], *"999999999999");
    let too_many = vec![entry("021000021", "1", 1); 10_001];
    assert_eq!(call(&args(&too_many), &configuration()).error().messages("args.entries").len(), 1);
}

#[test]
fn amounts_may_be_text_and_dates_may_be_given() {
    let given = with(
        args(&[with(entry("021000021", "1", 0), json!({ "amount_cents": " 42 " }))]),
        json!({ "file_id_modifier": "B", "file_creation": "2026-11-01T07:05" }),
    );
    let (lines, _) = file_of(&given);
    assert_eq!(lines[2][29..39], *"0000000042");
    assert_eq!(lines[0][23..34], *"2611010705B");
    let whole = with(entry("021000021", "1", 0), json!({ "amount_cents": 7.0 }));
    assert_eq!(file_of(&args(&[whole])).0[2][29..39], *"0000000007");
}

#[test]
fn faults_of_entries_are_told_together_and_without_values() {
    let wrong = args(&[
        with(entry("021000021", "secret", 0), json!({ "name": "李" })),
        entry("021000022", "123456789012345678", 10_000_000_000),
        with(entry("021000021", "1", 5), json!({ "prenote": true })),
    ]);
    let wrong = with(
        wrong,
        json!({
            "effective_entry_date": "2026-02-30", "file_id_modifier": "ab", "file_creation": "today",
        }),
    );
    let outcome = call(&wrong, &configuration());
    let error = outcome.error();
    assert_eq!(error.kind(), Some(ErrorKind::BadRequest));
    for member in [
        "args.entries[0].bank.account_number",
        "args.entries[0].amount_cents",
        "args.entries[0].name",
        "args.entries[1].bank.routing_number",
        "args.entries[1].bank.account_number",
        "args.entries[1].amount_cents",
        "args.entries[2].amount_cents",
        "args.effective_entry_date",
        "args.file_id_modifier",
        "args.file_creation",
    ] {
        assert_eq!(error.messages(member).len(), 1, "{member}");
    }
    let told = format!("{error:?}");
    for value in ["secret", "021000022", "123456789012345678", "today", "2026-02-30"] {
        assert!(!told.contains(value), "{told}");
    }
}

#[test]
fn members_of_the_wrong_type_are_named() {
    let table = [
        (json!({ "amount_cents": 1.5 }), "args.entries[0].amount_cents"),
        (json!({ "amount_cents": -1 }), "args.entries[0].amount_cents"),
        (json!({ "amount_cents": "1.50" }), "args.entries[0].amount_cents"),
        (json!({ "amount_cents": null }), "args.entries[0].amount_cents"),
        (json!({ "kind": "gift" }), "args.entries[0].kind"),
        (json!({ "account_type": "loan" }), "args.entries[0].account_type"),
        (json!({ "bank": "secret" }), "args.entries[0].bank"),
        (json!({ "bank": { "routing_number": "1" } }), "args.entries[0].bank.account_number"),
    ];
    for (members, member) in table {
        let outcome = call(&args(&[with(entry("021000021", "1", 1), members)]), &configuration());
        assert_eq!(outcome.error().messages(member).len(), 1, "{member}: {:?}", outcome.error());
        assert!(!format!("{:?}", outcome.error()).contains("secret"));
    }
    assert_eq!(call(&args(&[]), &configuration()).error().messages("args.entries").len(), 1);
}

/// Calls the formula with what is wrong and compares what is told, in no order.
fn check(args: &Value, configuration: &Value, expected: &[(&str, &str)]) {
    let outcome = call(args, configuration);
    let told = format!("{:?}", outcome.error());
    for (member, message) in expected {
        assert_eq!(outcome.error().messages(member), [*message], "{member}: {told}");
    }
    let members = told.split('"').filter(|part| {
        !outcome.error().messages(part).is_empty()
            && !expected.iter().any(|(member, _)| member == part)
    });
    assert_eq!(members.collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(!told.contains("secret"), "{told}");
}

const REQUIRED: &str = "is required";
const TEXT: &str = "must be a string";
const OBJECT: &str = "must be an object";
const ACCOUNT_TYPE: &str = "must be `checking` or `savings`";
const KIND: &str = "must be `credit` or `debit`";

#[test]
fn all_faults_of_all_entries_are_told() {
    check(
        &json!({ "entries": [{}, {}, { "prenote": true }], "effective_entry_date": "x" }),
        &configuration(),
        &[
            ("args.entries[0].bank", REQUIRED),
            ("args.entries[0].amount_cents", REQUIRED),
            ("args.entries[0].name", REQUIRED),
            ("args.entries[0].account_type", REQUIRED),
            ("args.entries[0].kind", REQUIRED),
            ("args.entries[1].bank", REQUIRED),
            ("args.entries[1].amount_cents", REQUIRED),
            ("args.entries[1].name", REQUIRED),
            ("args.entries[1].account_type", REQUIRED),
            ("args.entries[1].kind", REQUIRED),
            // A prenote needs no amount.
            ("args.entries[2].bank", REQUIRED),
            ("args.entries[2].name", REQUIRED),
            ("args.entries[2].account_type", REQUIRED),
            ("args.entries[2].kind", REQUIRED),
            ("args.effective_entry_date", "must be a date, YYYY-MM-DD"),
        ],
    );
    check(
        &args(&[
            json!({ "name": 5, "amount_cents": "secret", "account_type": 7, "kind": "secret", "bank": {} }),
            json!("secret"),
            with(
                entry("021000021", "1", 1),
                json!({ "individual_id": 7, "prenote": "secret", "amount_cents": true }),
            ),
            with(
                entry("021000021", "1", 1),
                json!({ "bank": { "routing_number": 5, "account_number": "x" } }),
            ),
            with(
                entry("021000021", "1", 1),
                json!({ "bank": ["secret"], "name": null, "kind": null }),
            ),
        ]),
        &configuration(),
        &[
            ("args.entries[0].bank.routing_number", REQUIRED),
            ("args.entries[0].bank.account_number", REQUIRED),
            ("args.entries[0].amount_cents", "must be a whole number of cents, 0 or more"),
            ("args.entries[0].name", TEXT),
            ("args.entries[0].account_type", ACCOUNT_TYPE),
            ("args.entries[0].kind", KIND),
            ("args.entries[1]", OBJECT),
            ("args.entries[2].individual_id", TEXT),
            ("args.entries[2].prenote", "must be true or false"),
            ("args.entries[2].amount_cents", "must be a whole number of cents, 0 or more"),
            ("args.entries[3].bank.routing_number", TEXT),
            ("args.entries[3].bank.account_number", "must have 1 to 17 digits"),
            ("args.entries[4].bank", OBJECT),
            ("args.entries[4].name", TEXT),
            ("args.entries[4].kind", KIND),
        ],
    );
}

#[test]
fn faults_of_entries_hide_none_elsewhere() {
    let modifier = "must be one of A to Z and 0 to 9";
    let table = [
        (json!({}), vec![("args.entries", REQUIRED), ("args.effective_entry_date", REQUIRED)]),
        (
            json!({ "entries": { "0": "secret" }, "effective_entry_date": 5, "file_id_modifier": 7, "file_creation": {} }),
            vec![
                ("args.entries", "must be an array"),
                ("args.effective_entry_date", TEXT),
                ("args.file_id_modifier", TEXT),
                ("args.file_creation", TEXT),
            ],
        ),
        (
            json!({ "entries": [], "effective_entry_date": "2026-12-01", "file_id_modifier": "ab" }),
            vec![
                ("args.entries", "must have 1 to 10000 entries"),
                ("args.file_id_modifier", modifier),
            ],
        ),
        (json!(5), vec![("args", OBJECT)]),
    ];
    let mut settings = configuration();
    settings["company_name"] = json!(7);
    settings["return_file"] = json!(true);
    for (given, expected) in table {
        check(&given, &configuration(), &expected);
        let owners = [
            ("configuration.company_name", TEXT),
            ("configuration.return_file", "must be `token` or `raw`"),
        ];
        check(&given, &settings, &[expected, owners.to_vec()].concat());
    }

    // More faults than are told at once: those of the other members come first.
    let many = with(args(&vec![json!({}); 10_001]), json!({ "file_id_modifier": "ab" }));
    let outcome = call(&many, &configuration());
    assert_eq!(outcome.error().messages("args.file_id_modifier"), [modifier]);
    assert_eq!(outcome.error().messages("args.entries"), ["must have 1 to 10000 entries"]);
    assert_eq!(outcome.error().messages("args.entries[0].bank"), [REQUIRED]);

    let mut too_much = vec![entry("021000021", "1", 9_999_999_999); 101];
    too_much.push(json!("secret"));
    check(
        &args(&too_much),
        &configuration(),
        &[
            ("args.entries", "must sum up to 999999999999 cents of a kind at most"),
            ("args.entries[101]", OBJECT),
        ],
    );
}

#[test]
fn all_faults_of_the_configuration_are_told() {
    let texts = [
        "immediate_destination",
        "immediate_destination_name",
        "immediate_origin",
        "immediate_origin_name",
        "company_name",
        "company_identification",
        "company_entry_description",
        "originating_dfi_identification",
    ];
    let (mut wrong, mut expected) = (json!({}), Vec::new());
    let members: Vec<_> = texts.iter().map(|name| format!("configuration.{name}")).collect();
    for (name, member) in texts.iter().zip(&members) {
        wrong[*name] = json!(["secret"]);
        expected.push((member.as_str(), TEXT));
    }
    wrong["standard_entry_class_code"] = json!("WEB");
    wrong["return_file"] = json!(null);
    expected.push(("configuration.standard_entry_class_code", "must be `PPD` or `CCD`"));
    expected.push(("configuration.return_file", "must be `token` or `raw`"));
    check(&three_entries(), &wrong, &expected);
    check(&three_entries(), &json!(5), &[("configuration", OBJECT)]);

    let mut missing: Vec<_> = members.iter().map(|member| (member.as_str(), REQUIRED)).collect();
    missing.push(("configuration.standard_entry_class_code", REQUIRED));
    missing.push(("args.entries[0]", OBJECT));
    check(&args(&[json!(5)]), &json!({}), &missing);
}

#[test]
fn entries_do_not_settle_before_the_file_is_made() {
    let given =
        |date| with(args(&[entry("021000021", "1", 1)]), json!({ "effective_entry_date": date }));
    let outcome = call(&given("2026-11-29"), &configuration());
    assert_eq!(outcome.error().messages("args.effective_entry_date").len(), 1);
    assert_eq!(file_of(&given("2026-11-30")).0[1][69..75], *"261130");
}

#[test]
fn the_configuration_is_checked() {
    let table = [
        ("immediate_destination", "091000018"),
        ("immediate_destination_name", " "),
        ("immediate_origin", "12345678901"),
        ("immediate_origin_name", ""),
        ("company_name", "李"),
        ("company_identification", ""),
        ("company_entry_description", ""),
        ("company_entry_description", "Payroll Nov"),
        ("originating_dfi_identification", "091000019"),
        ("standard_entry_class_code", "WEB"),
        ("return_file", "mail"),
    ];
    for (name, value) in table {
        let mut settings = configuration();
        settings[name] = value.into();
        let outcome = call(&three_entries(), &settings);
        let member = format!("configuration.{name}");
        assert_eq!(outcome.error().messages(&member).len(), 1, "{:?}", outcome.error());
        // No caller can mend it.
        assert_eq!(outcome.error().kind(), Some(ErrorKind::Runtime), "{member}");
        assert!(outcome.error().detail().contains(&member), "{}", outcome.error());
    }
}
