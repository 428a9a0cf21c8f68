//! Runs formulas that are written in JavaScript, by the Boa engine.
//!
//! One component for all scripts: it asks the server for the script of the invocation, evaluates it, calls what it
//! assigned to `module.exports` and answers as any formula does. [`engine`] sets the engine up and runs a script,
//! [`natives`] are the functions that `prelude/` makes the script's world of, [`answer`] is how failures are told.
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
mod jobs;
mod natives;

use std::cell::RefCell;

use boa_engine::JsString;

use bindings::exports::tokamak::formula::reactor::{Error, Guest, Request, Response};
use bindings::tokamak::script::source;
use engine::{Engine, Invoked};

thread_local! {
    /// What the set-up left.
    static ENGINE: RefCell<Option<Engine>> = const { RefCell::new(None) };
}

struct Runner;

impl Guest for Runner {
    fn react(request: Request) -> Result<Response, Error> {
        let engine = ENGINE.with_borrow_mut(Option::take).or_else(|| Engine::new().ok());
        let Some(mut engine) = engine else {
            return Err(answer::runtime("The engine cannot be set up.", &[]));
        };
        let code = source::code();
        let answer = if source::is_check() {
            engine.check(&code).map(|()| Response { raw: None, tokenize: None })
        } else {
            let Request { args, configuration, svc, invocation } = request;
            natives::vault::bind(svc);
            let text = |text: String| JsString::from(text.as_str()).into();
            let invocation = natives::object(
                &mut engine.context,
                &[
                    ("id", text(invocation.id)),
                    ("reactor_id", text(invocation.reactor_id)),
                    ("attempt", f64::from(invocation.attempt).into()),
                    ("deadline_ms", natives::number(invocation.deadline_ms).into()),
                ],
            );
            engine.run(&code, &Invoked { args: &args, configuration: &configuration, invocation })
        };
        // The instance is thrown away as a whole; taking the engine apart would be work for nothing.
        std::mem::forget(engine);
        answer
    }
}

/// Sets the engine up; called once, by what takes the image of the memory.
#[expect(unsafe_code, reason = "the name by which the build finds it; it is called by nobody else")]
#[unsafe(export_name = "initialize")]
extern "C" fn initialize() {
    ENGINE.with_borrow_mut(|engine| *engine = Engine::new().ok());
}
