//! Runs formulas that are written in JavaScript, by the Boa engine.
//!
//! One component for all scripts: it asks the server for the script of the invocation, evaluates it, calls what it
//! assigned to `module.exports` and answers as any formula does. [`engine`] sets the engine up and runs a script,
//! [`natives`] are the functions that `prelude/` makes the script's world of, [`answer`] is how failures are told, with
//! the places that [`place`] finds where the engine knows none.
//! A script's top level runs once where it can: [`image`] hands over what it leaves, and every call begins with that.
//!
//! The set-up is done once, when the product is built: `initialize` runs, and the memory it leaves is what every
//! instance begins with. So it must not ask for the time, for randomness or for anything of the host: there is none then.
//!
//! The engine was chosen beside `QuickJS` (quickjs-ng 0.16.2 by rquickjs 0.14.0), put into this very runner in Boa's place,
//! its prelude and its image, and run by `cargo bench --bench invoke` in the same minutes, on a busy machine:
//!
//! | | Boa 0.22.0 | `QuickJS` |
//! |---|---|---|
//! | least script, usual script, usual in full (median) | 240, 423, 884 µs | 72, 110, 259 µs |
//! | component with its image, compressed | 2.1 MB | 0.7 MB |
//! | memory of the image | 2,592 KiB | 680 KiB |
//! | test262, every 30th: the language, what is built in | 728 of 731, 587 of 618 | 727 of 731, 615 of 618 |
//! | is built with | Rust | Rust, clang for WebAssembly, headers of WASI |
//!
//! Boa is the one that a machine with Rust alone builds, and an engine in C would put a fault of its parsers between card
//! numbers and whatever text a script is sent. It costs three times the time of a run. What speaks of the engine is
//! [`engine`], [`natives`] and [`jobs`]; the prelude ran on both unchanged.
//!
//! To offer scripts another interface: a file of `prelude/`, and natives for what JavaScript cannot do itself.

#![cfg(target_family = "wasm")]

mod answer;
mod bindings;
mod clock;
mod engine;
mod heap;
mod image;
mod jobs;
mod natives;
mod place;
mod tokens;

use std::cell::RefCell;

use boa_engine::JsString;

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
    }
}

fn call(engine: &mut Engine, request: Request) -> Result<Response, Error> {
    let Request { svc, invocation, .. } = request;
    natives::vault::bind(svc);
    let Call { args, configuration, id, reactor_id } = source::called_with();
    let text = |text: String| JsString::from(text.as_str()).into();
    let invocation = natives::object(
        &mut engine.context,
        &[
            ("id", text(id)),
            ("reactor_id", text(reactor_id)),
            ("attempt", f64::from(invocation.attempt).into()),
            ("deadline_ms", natives::number(invocation.deadline_ms).into()),
        ],
    );
    engine.call(&Invoked { args: &args, configuration: &configuration, invocation })
}

/// Sets the engine up; called once, by what takes the image of the memory.
#[expect(unsafe_code, reason = "the name by which the build finds it; it is called by nobody else")]
#[unsafe(export_name = "initialize")]
extern "C" fn initialize() {
    ENGINE.with_borrow_mut(|engine| *engine = Engine::new().ok());
}
