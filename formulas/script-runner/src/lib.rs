//! Runs formulas that are written in JavaScript, by the `QuickJS` engine (quickjs-ng).
//!
//! One component for all scripts: it asks the server for the script of the invocation, evaluates it, calls what it
//! assigned to `module.exports` and answers as any formula does. [`engine`] sets the engine up and runs a script,
//! [`natives`] are the functions that `prelude/` makes the script's world of, [`answer`] is how failures are told, with
//! their [`place`]s. [`clock`] and [`stdio`] stand where the engine would ask the C library.
//! A script's top level runs once where it can: [`image`] hands over what it leaves, and every call begins with that.
//!
//! The set-up is done once, when the product is built: `initialize` runs, and the memory it leaves is what every
//! instance begins with. So it must not ask for the time, for randomness or for anything of the host: there is none then.
//!
//! The component lies here built, as `script-runner.wasm`, since its engine is C and nobody should need a compiler of C for
//! WebAssembly to build the server. `build.sh` makes it, and the same bytes from the same sources; `script-runner.sum` says
//! of which, and a test holds it against what is here. After a change of anything here: `build.sh`.
//!
//! Two engines were put into this runner, its prelude and its image, and run by `cargo bench --bench invoke` in the same
//! minutes, on a busy machine:
//!
//! | | `QuickJS` (quickjs-ng 0.16.2, rquickjs 0.14.0) | Boa 0.22.0 |
//! |---|---|---|
//! | least script, usual script, usual in full (median) | 72, 110, 259 µs | 240, 423, 884 µs |
//! | component with its image, compressed | 0.7 MB | 2.1 MB |
//! | memory of the image | 680 KiB | 2,592 KiB |
//! | test262, every 30th: the language, what is built in | 727 of 731, 615 of 618 | 728 of 731, 587 of 618 |
//! | brackets within brackets that parse | hundreds | about ten |
//! | is built with | Rust, clang for WebAssembly | Rust |
//!
//! A fault of the engine in C stays in the memory of one run, as one of a formula would: an instance sees nothing of
//! another's, and what it may ask of the server is what every formula may.
//!
//! To offer scripts another interface: a file of `prelude/`, and natives for what JavaScript cannot do itself.

#![cfg(target_family = "wasm")]

mod answer;
mod bindings;
mod clock;
mod engine;
mod image;
mod memory;
mod natives;
mod place;
mod stdio;

use std::cell::RefCell;

use bindings::exports::tokamak::formula::reactor::{Error, Guest, Request, Response};
use bindings::tokamak::script::source::{self, Call, Task};
use engine::{Engine, Invoked};

thread_local! {
    /// What the set-up left.
    static ENGINE: RefCell<Option<Engine>> = const { RefCell::new(None) };
}

struct Runner;

impl Guest for Runner {
    fn react(request: Request) -> Result<Response, Error> {
        let task = source::to_do();
        if task == Task::Resume && image::restore().is_none() {
            return Err(answer::runtime("The script's image cannot be laid over the memory.", &[]));
        }
        if task == Task::Prepare {
            image::keep();
        }
        let answer = ENGINE.with_borrow_mut(|engine| match engine {
            Some(engine) => perform(task, engine, request),
            None => Err(answer::runtime("The engine is not set up.", &[])),
        });
        if task == Task::Prepare && answer.is_ok() {
            image::keep();
        }
        answer
    }
}

fn perform(task: Task, engine: &mut Engine, request: Request) -> Result<Response, Error> {
    let nothing = || Response { raw: None, tokenize: None };
    match task {
        Task::Check => engine.check(&source::code()).map(|()| nothing()),
        Task::Prepare => engine.evaluate(&source::code()).map(|()| nothing()),
        Task::Run => {
            engine.evaluate(&source::code())?;
            call(engine, request)
        }
        Task::Resume => call(engine, request),
        Task::Examine => engine.examine(&source::code()).map(|()| nothing()),
    }
}

fn call(engine: &mut Engine, request: Request) -> Result<Response, Error> {
    let Request { svc, invocation, .. } = request;
    natives::vault::bind(svc);
    let Call { args, configuration, id, reactor_id } = source::called_with();
    engine.call(&Invoked {
        args: &args,
        configuration: &configuration,
        id: &id,
        reactor_id: &reactor_id,
        attempt: invocation.attempt,
        deadline_ms: invocation.deadline_ms,
    })
}

/// Sets the engine up; called once, by what takes the image of the memory.
#[expect(unsafe_code, reason = "the name by which the build finds it; it is called by nobody else")]
#[unsafe(export_name = "initialize")]
extern "C" fn initialize() {
    ENGINE.with_borrow_mut(|engine| *engine = Engine::new().ok());
    clock::start();
}
