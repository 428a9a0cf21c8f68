//! The engine: set up once, then one script.

use std::path::Path;
use std::rc::Rc;

use boa_engine::builtins::promise::PromiseState;
use boa_engine::context::ContextBuilder;
use boa_engine::module::IdleModuleLoader;
use boa_engine::object::builtins::JsPromise;
use boa_engine::optimizer::OptimizerOptions;
use boa_engine::{
    Context, JsError, JsObject, JsResult, JsString, JsValue, Script, Source, js_string,
};
use boa_gc::{Finalize, Gc, Trace, force_collect};

use crate::bindings::exports::tokamak::formula::reactor::{Error, Response};
use crate::clock::HostClock;
use crate::jobs::Jobs;
use crate::{answer, natives};

/// The name of a script in what is said of its errors.
const SCRIPT: &str = "formula.js";
/// Calls within calls; past them the script ends. What a native stack of 512 KiB holds of the deepest of them.
const RECURSION_MAX: usize = 400;
/// What is said of a script that waits for what cannot come.
const NEVER_SETTLED: &str = "The script's promise is never settled: nothing is left to do.";
/// Bytes that a script may make before the first collection, beside what the set-up left.
const FIRST_COLLECTION_BYTES: usize = 3 << 20;

/// The files of `prelude/`, in the order in which they build on each other.
const PRELUDE: &[(&str, &str)] = &[
    ("globals", include_str!("prelude/globals.js")),
    ("errors", include_str!("prelude/errors.js")),
    ("console", include_str!("prelude/console.js")),
    ("encoding", include_str!("prelude/encoding.js")),
    ("buffer", include_str!("prelude/buffer.js")),
    ("url", include_str!("prelude/url.js")),
    ("crypto", include_str!("prelude/crypto.js")),
    ("fetch", include_str!("prelude/fetch.js")),
    ("timers", include_str!("prelude/timers.js")),
    ("formula", include_str!("prelude/formula.js")),
];

/// A script that exercises what nearly every script does, so that what is made at first use is in the image.
const WARM_UP: &str = "module.exports = async (req) => {\n\
    const { args: { a = [1], ...rest } } = req;\n\
    const text = `${a.map((n) => n + 1).join(',')}`.padStart(4, '0').slice(-2);\n\
    try { await null; throw new Error(text); } catch (error) { rest.text = error.message; }\n\
    for (const [key, value] of Object.entries(rest)) { if (!key) return value; }\n\
    return { raw: JSON.parse(JSON.stringify({ ...rest, text, at: /x/.test(text) })) };\n\
};";

/// The engine with the world of a script in it, and no script yet.
pub struct Engine {
    /// Where the script runs.
    pub context: Context,
    /// What the prelude hands back: `react`, `fire`, `describe`.
    prelude: JsObject,
}

/// What a script is called with.
pub struct Invoked<'a> {
    /// The arguments, as JSON.
    pub args: &'a str,
    /// The reactor's configuration, as JSON.
    pub configuration: &'a str,
    /// Which call it is.
    pub invocation: JsObject,
}

impl Engine {
    /// Sets the engine up. Asks the host for nothing.
    pub fn new() -> JsResult<Self> {
        put_off_collections();
        let mut context = ContextBuilder::new()
            .clock(Rc::new(HostClock))
            .job_executor(Rc::new(Jobs::default()))
            .module_loader(Rc::new(IdleModuleLoader))
            .build()?;
        // Folding constants would let a script compute while it is parsed, and costs more than it gains.
        context.set_optimizer_options(OptimizerOptions::empty());
        context.runtime_limits_mut().set_recursion_limit(RECURSION_MAX);
        let host: JsValue = natives::all(&mut context).into();
        let shared: JsValue = JsObject::with_object_proto(context.intrinsics()).into();
        let mut last = JsValue::undefined();
        for (name, text) in PRELUDE {
            let path = format!("tokamak/{name}.js");
            let source = Source::from_bytes(text).with_path(Path::new(&path));
            let file = Script::parse(source, None, &mut context)?.evaluate(&mut context)?;
            let file =
                file.as_callable().ok_or_else(|| error("a file of the prelude is no function"))?;
            last =
                file.call(&JsValue::undefined(), &[host.clone(), shared.clone()], &mut context)?;
        }
        let prelude = last.as_object().ok_or_else(|| error("the prelude gives no object"))?;
        let mut engine = Self { context, prelude: prelude.clone() };
        engine.warm_up()?;
        force_collect();
        Ok(engine)
    }

    fn warm_up(&mut self) -> JsResult<()> {
        let invocation = JsObject::with_object_proto(self.context.intrinsics());
        let invoked = Invoked { args: "{}", configuration: "{}", invocation };
        let warmed_up = self.evaluate(WARM_UP).and_then(|()| self.call(&invoked));
        warmed_up.map_err(|_| error("the warm-up failed"))?;
        let module = self.context.global_object().get(js_string!("module"), &mut self.context)?;
        let module = module.as_object().ok_or_else(|| error("there is no module"))?;
        let exports = self.context.global_object().get(js_string!("exports"), &mut self.context)?;
        module.set(js_string!("exports"), exports, true, &mut self.context)?;
        Ok(())
    }

    /// Whether a script parses.
    pub fn check(&mut self, code: &str) -> Result<(), Error> {
        self.parse(code).map(drop)
    }

    /// Evaluates a script's top level.
    pub fn evaluate(&mut self, code: &str) -> Result<(), Error> {
        let script = self.parse(code)?;
        let value = script.evaluate(&mut self.context);
        value.map(drop).map_err(|error| self.describe(error))
    }

    /// Calls what the script exports.
    pub fn call(&mut self, invoked: &Invoked<'_>) -> Result<Response, Error> {
        self.react(invoked).map_err(|error| self.describe(error))
    }

    fn parse(&mut self, code: &str) -> Result<Script, Error> {
        let source = Source::from_bytes(code).with_path(Path::new(SCRIPT));
        Script::parse(source, None, &mut self.context).map_err(|error| {
            let message = error.to_string();
            let opened = || self.opened_at(code, &message);
            answer::does_not_parse(&message, code, opened)
        })
    }

    /// The line and column of what a script opens and never closes, a string or a comment: the engine says only that there
    /// is one. The first lines that end with the same error end with the one that opens it.
    fn opened_at(&mut self, code: &str, message: &str) -> (usize, usize) {
        let lines: Vec<&str> = code.split_inclusive('\n').collect();
        let ends: Vec<usize> = lines
            .iter()
            .scan(0, |end, line| {
                *end += line.len();
                Some(*end)
            })
            .collect();
        let closed = ends.partition_point(|end| {
            let source = Source::from_bytes(&code[..*end]).with_path(Path::new(SCRIPT));
            let parsed = Script::parse(source, None, &mut self.context);
            parsed.map_or_else(|error| error.to_string() != message, |_| true)
        });
        let line = lines.get(closed).copied().unwrap_or_default();
        let opening = line.rfind(['\'', '"', '`']).or_else(|| line.rfind("/*")).unwrap_or(0);
        (closed + 1, line[..opening].chars().count() + 1)
    }

    fn react(&mut self, invoked: &Invoked<'_>) -> JsResult<Response> {
        let context = &mut self.context;
        let arguments = [
            natives::from_json(invoked.args, context)?,
            natives::from_json(invoked.configuration, context)?,
            invoked.invocation.clone().into(),
            natives::vault::is_bound().into(),
        ];
        let promise = self.ask("react", &arguments)?;
        let promise = promise.as_object().ok_or_else(|| error("a call gives no promise"))?;
        let settled = self.settled(&JsPromise::from_object(promise.clone())?)?;
        let parts = settled.as_object().ok_or_else(|| error("a call settles with nothing"))?;
        let mut part = |index: u32| -> JsResult<Option<String>> {
            let value = parts.get(index, &mut self.context)?;
            Ok(value.as_string().map(|text| text.to_std_string_lossy()))
        };
        Ok(Response { raw: part(0)?, tokenize: part(1)? })
    }

    /// Runs jobs and timers until a promise is settled.
    fn settled(&mut self, promise: &JsPromise) -> JsResult<JsValue> {
        loop {
            self.context.run_jobs()?;
            match promise.state() {
                PromiseState::Fulfilled(value) => return Ok(value),
                PromiseState::Rejected(reason) => return Err(JsError::from_opaque(reason)),
                PromiseState::Pending if self.ask("fire", &[])?.to_boolean() => {}
                PromiseState::Pending => {
                    return Err(error(NEVER_SETTLED));
                }
            }
        }
    }

    fn ask(&mut self, name: &str, arguments: &[JsValue]) -> JsResult<JsValue> {
        let function = self.prelude.get(JsString::from(name), &mut self.context)?;
        let function =
            function.as_callable().ok_or_else(|| error("the prelude lacks a function"))?;
        function.call(&JsValue::undefined(), arguments, &mut self.context)
    }

    fn describe(&mut self, error: JsError) -> Error {
        if error.as_native().is_some_and(|native| native.message() == NEVER_SETTLED) {
            return answer::runtime(NEVER_SETTLED, &[]);
        }
        // What no script may catch: limits of the engine.
        let Ok(value) = error.into_opaque(&mut self.context) else {
            return answer::runtime("The script calls itself too deeply.", &[]);
        };
        match self.ask("describe", &[value]) {
            Ok(described) => {
                let text = described.as_string().map(|text| text.to_std_string_lossy());
                answer::thrown(&text.unwrap_or_default())
            }
            Err(_) => answer::runtime("The script ended with a value that cannot be read.", &[]),
        }
    }
}

/// An error as the engine's own are.
pub fn error(message: &'static str) -> JsError {
    boa_engine::JsNativeError::error().with_message(message).into()
}

/// Sixteen KiB that the collector counts.
#[derive(Trace, Finalize)]
#[expect(dead_code, reason = "it is there to be large")]
struct Ballast(#[unsafe_ignore_trace] [u8; 16 << 10]);

/// Lets the collector see much that lives, once: it sets its threshold by that, never lowers it, and small scripts end
/// before their first collection. What is made for it is given back before the engine takes the same room.
fn put_off_collections() {
    let room = FIRST_COLLECTION_BYTES / size_of::<Ballast>();
    let ballast: Vec<Gc<Ballast>> = (0..room).map(|_| Gc::new(Ballast([0; 16 << 10]))).collect();
    force_collect();
    drop(ballast);
    force_collect();
}
