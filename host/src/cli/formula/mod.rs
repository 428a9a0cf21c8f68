//! `tokamak formula`: the workshop of those who write formulas (decisions §9).
//!
//! A project is built by the tools of its language, and tried out by the server's own code: checks, sandbox, `svc` and
//! words are those of a server. To add a command: a variant of [`FormulaCommand`] and an arm in [`run`].

mod bench;
mod build;
mod cases;
mod differences;
mod new;
mod project;
mod push;
mod report;
mod run;
mod stand_ins;
mod watch;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Failure, counted, logging, serve};
use crate::config::LogFormat;
use crate::runtime::{Description, describe};
use bench::Bench;
use build::{Built, build};
use cases::Case;
use project::{Code, Project};
use push::Pushed;
use report::{BAD, DIM, GOOD, Progress, bytes, say, say_json, styled, warn};

/// The exit code of what could not be looked at, so that scripts do not take it for a refusal or a case that failed.
const NOT_LOOKED_AT: u8 = 2;

/// What to do with a formula.
#[derive(Debug, Subcommand)]
pub enum FormulaCommand {
    /// Make a project: source, cases and a sample of arguments, in a folder of its name.
    New(new::NewOptions),
    /// Build the project's component with the tools of its language.
    Build(On<Watch>),
    /// Say what a server would say of the formula: its world, its imports, its size, and whether it is taken.
    Check(On<Nothing>),
    /// Run the formula once, in the sandbox of the server and with a vault in memory.
    Run(On<Both<run::RunOptions>>),
    /// Run the project's cases, each with a vault of its own.
    Test(On<Both<Only>>),
    /// Make the formula on a server, or replace the one of its name.
    Push(On<push::PushOptions>),
}

/// What every command on a project takes.
#[derive(Debug, Args)]
pub struct On<T: Args> {
    /// The project's folder.
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    project: PathBuf,
    /// A component that is built already, instead of the project's own.
    #[arg(long, value_name = "FILE")]
    component: Option<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    own: T,
}

/// Nothing more.
#[derive(Debug, Args)]
pub struct Nothing {}

/// Whether to do it again.
#[derive(Debug, Args)]
pub struct Watch {
    /// Do it again whenever a file of the project changes.
    #[arg(long)]
    watch: bool,
}

/// A command's own options, and whether to do it again.
#[derive(Debug, Args)]
pub struct Both<T: Args> {
    #[command(flatten)]
    own: T,
    #[command(flatten)]
    watch: Watch,
}

/// Which cases.
#[derive(Debug, Args)]
pub struct Only {
    /// Only cases whose names hold this.
    #[arg(value_name = "NAME")]
    only: Option<String>,
}

impl FormulaCommand {
    /// Whether a script reads what is printed.
    fn json(&self) -> bool {
        match self {
            Self::New(options) => options.json(),
            Self::Build(on) => on.json,
            Self::Check(on) => on.json,
            Self::Run(on) => on.json,
            Self::Test(on) => on.json,
            Self::Push(on) => on.json,
        }
    }
}

/// Runs the command. What is wrong with the formula ends with 1, what kept it from being looked at with 2.
pub fn run(command: FormulaCommand) -> ExitCode {
    let json = command.json();
    let done = |outcome: Result<bool, Failure>| match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => failed(&error, json),
    };
    if let Err(error) = logging::start("error", LogFormat::Text) {
        return failed(&error, json);
    }
    match command {
        FormulaCommand::New(options) => done(new::run(&options).map(|()| true)),
        FormulaCommand::Build(on) => {
            watch::repeat(&on.project, on.own.watch, || done(build_only(&on)))
        }
        FormulaCommand::Check(on) => done(check(&on)),
        FormulaCommand::Run(on) => {
            watch::repeat(&on.project, on.own.watch.watch, || done(run_once(&on)))
        }
        FormulaCommand::Test(on) => {
            watch::repeat(&on.project, on.own.watch.watch, || done(test(&on)))
        }
        FormulaCommand::Push(on) => {
            push_to_server(&on).unwrap_or_else(|error| failed(&error, json))
        }
    }
}

fn failed(error: &Failure, json: bool) -> ExitCode {
    if json {
        say_json(&json!({ "status": "error", "error": error.to_string() }));
    } else {
        warn(format_args!("{BAD}tokamak:{BAD:#} {error}"));
    }
    ExitCode::from(NOT_LOOKED_AT)
}

impl<T: Args> On<T> {
    fn open(&self) -> Result<(Project, Built), Failure> {
        let project = Project::open(&self.project)?;
        let built = build(&project, self.component.as_deref())?;
        Ok((project, built))
    }
}

fn build_only(on: &On<Watch>) -> Result<bool, Failure> {
    let (project, Built { code, path }) = on.open()?;
    let size = size(&code);
    let dropped = project.dropped(&outside(&code));
    if on.json {
        let language = project.language_name();
        say_json(&json!({ "language": language, "path": path, "bytes": size, "dropped": dropped }));
    } else {
        say(format_args!("{} {} ({})", styled(GOOD, "built"), path.display(), bytes(size)));
        caution(&dropped);
    }
    Ok(true)
}

fn outside(code: &Code) -> Description {
    match code {
        Code::Component(bytes) => describe(bytes),
        Code::Javascript(_) => Description::default(),
    }
}

/// Says which arguments never reach the formula, and what to do.
fn caution(dropped: &[String]) {
    for name in dropped {
        say(format_args!(
            "{} {name} never reaches the formula: its type declares nothing, and undeclared_arguments is \"drop\". \
            Say what it is, by #[parameter(type = \"object\")] or the like at the field, or make that \"forward\"",
            styled(BAD, "caution")
        ));
    }
}

fn size(code: &Code) -> u64 {
    match code {
        Code::Component(bytes) => bytes.len() as u64,
        Code::Javascript(source) => source.len() as u64,
    }
}

fn check(on: &On<Nothing>) -> Result<bool, Failure> {
    let (project, Built { code, path }) = on.open()?;
    let outside = outside(&code);
    let (told, dropped) = (project.told(&outside), project.dropped(&outside));
    let verdict = serve::block_on(async {
        let bench = Bench::open(&project, None).await?;
        let _progress = Progress::of("compiling");
        let verdict = bench.check(&project, &code).await;
        bench.close();
        Ok(verdict)
    })?;
    let taken = verdict.is_ok();
    if on.json {
        let (formula, error) = match verdict {
            Ok(formula) => (serde_json::to_value(formula)?, Value::Null),
            Err(problem) => (Value::Null, serde_json::to_value(problem)?),
        };
        say_json(&json!({
            "status": if taken { "verified" } else { "refused" },
            "language": project.language_name(),
            "path": path,
            "bytes": size(&code),
            "imports": outside.imports,
            "exports": outside.exports,
            "declared_by_the_component": told,
            "dropped": dropped,
            "formula": formula,
            "error": error,
        }));
        return Ok(taken);
    }
    let row = |name: &str, value: &str| say(format_args!("{DIM}{name:<10}{DIM:#}{value}"));
    row("language", project.language_name());
    row("size", &bytes(size(&code)));
    for export in &outside.exports {
        row("exports", export);
    }
    for import in &outside.imports {
        row("imports", import);
    }
    match verdict {
        Ok(formula) => {
            let of = |name: &str| {
                let by_component = told.iter().any(|told| told == name);
                if by_component { "declared by the component" } else { "of formula.json" }
            };
            let (parameters, entries) =
                (formula.request_parameters.len(), formula.configuration.len());
            let parameters = counted(parameters, "request parameter", "request parameters");
            let entries = counted(entries, "entry of configuration", "entries of configuration");
            row("takes", &format!("{parameters}, {}", of("request_parameters")));
            row("needs", &format!("{entries}, {}", of("configuration")));
            row("memory", &format!("{} MiB", formula.limits.memory_mb));
            caution(&dropped);
            say(format_args!("{} a server takes it", styled(GOOD, "verified:")));
        }
        Err(problem) => say(format_args!("{} {problem}", styled(BAD, "refused:"))),
    }
    Ok(taken)
}

fn run_once(on: &On<Both<run::RunOptions>>) -> Result<bool, Failure> {
    let (trial, timeout_ms) = (on.own.own.trial()?, on.own.own.timeout_ms);
    let (project, Built { code, .. }) = on.open()?;
    let ran = serve::block_on(async {
        let bench = Bench::open(&project, timeout_ms).await?;
        let progress = Progress::of("running");
        let ran = bench.run(&project, &code, trial).await;
        drop(progress);
        bench.close();
        Ok(ran)
    })?;
    let completed = ran.error.is_none();
    if on.json {
        let mut told = serde_json::to_value(&ran)?;
        told["status"] = if completed { "completed" } else { "failed" }.into();
        say(told);
    } else {
        say(run::shown(&ran));
    }
    Ok(completed)
}

fn test(on: &On<Both<Only>>) -> Result<bool, Failure> {
    let (project, Built { code, .. }) = on.open()?;
    let cases = Case::of_project(&on.project, on.own.own.only.as_deref())?;
    if cases.is_empty() {
        let such = if on.own.own.only.is_some() { "such " } else { "" };
        return Err(format!("there are no {such}cases").into());
    }
    let (json, count) = (on.json, cases.len());
    let judged = serve::block_on(async {
        let mut benches: BTreeMap<Option<u64>, Bench> = BTreeMap::new();
        let mut judged = Vec::with_capacity(cases.len());
        for (index, case) in cases.iter().enumerate() {
            let bench = match benches.entry(case.timeout_ms) {
                Entry::Occupied(opened) => opened.into_mut(),
                Entry::Vacant(place) => place.insert(Bench::open(&project, case.timeout_ms).await?),
            };
            let progress = Progress::of(format_args!("case {} of {count}", index + 1));
            let ran = bench.run(&project, &code, case.trial()).await;
            drop(progress);
            let one = case.judge(ran);
            if !json {
                say(cases::shown(&one));
            }
            judged.push(one);
        }
        benches.into_values().for_each(Bench::close);
        Ok(judged)
    })?;
    let failed = judged.iter().filter(|one| !one.passed).count();
    let passed = count - failed;
    let all = counted(count, "case", "cases");
    if json {
        say_json(&json!({ "passed": passed, "failed": failed, "cases": judged }));
    } else if failed == 0 {
        say(format_args!("{} {passed} of {all}", styled(GOOD, "passed")));
    } else {
        say(format_args!("{} {failed} of {all}", styled(BAD, "failed")));
    }
    Ok(failed == 0)
}

fn push_to_server(on: &On<push::PushOptions>) -> Result<ExitCode, Failure> {
    on.own.check()?;
    let (project, Built { code, .. }) = on.open()?;
    let body = project.body(&code);
    let pushed = serve::block_on(on.own.push(&body))?;
    if on.json {
        say_json(&push::as_json(&pushed));
    } else {
        match &pushed {
            Pushed::Done { created, formula } => {
                let word = if *created { "created" } else { "updated" };
                let id = formula["id"].as_str().unwrap_or_default();
                say(format_args!("{} {} {id}", styled(GOOD, word), project.name()));
                if *created {
                    say(format_args!("{DIM}next{DIM:#}\n  {}", on.own.next(id)));
                }
            }
            Pushed::Refused(problem) => {
                say(format_args!("{} {problem}", styled(BAD, "refused:")));
            }
        }
    }
    Ok(match &pushed {
        Pushed::Done { .. } => ExitCode::SUCCESS,
        Pushed::Refused(problem) if push::is_of_the_formula(problem) => ExitCode::FAILURE,
        Pushed::Refused(_) => ExitCode::from(NOT_LOOKED_AT),
    })
}
