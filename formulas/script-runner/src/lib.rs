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
