//! The engine: set up once, then one script.

use std::cell::Cell;
use std::ffi::{CStr, CString};

use rquickjs::context::intrinsic::{
    Date, Eval, Json, MapSet, Promise as Promises, Proxy, RegExp, RegExpCompiler, TypedArrays,
    WeakRef,
};
use rquickjs::prelude::IntoArgs;
use rquickjs::promise::PromiseState;
use rquickjs::{
    Context, Ctx, Error as JsError, Function, Object, Persistent, Promise, Result as JsResult,
    Runtime, Value, qjs,
};

use crate::bindings::exports::tokamak::formula::reactor::{Error, Response};
use crate::{answer, memory, natives, place};

/// The name of a script in what is said of its errors.
const SCRIPT: &CStr = c"formula.js";
/// Bytes of the linear stack that a script may use: of most calls what is native is then less than the server gives, and they
/// end with a `RangeError`. What takes little of this stack and much of that one ends the run.
const STACK_BYTES: usize = 160 << 10;
/// Bytes at which the collector looks for cycles first: most scripts end before.
const FIRST_COLLECTION_BYTES: usize = 3 << 20;
/// Bytes of a script in which the place of a fault is searched for that the engine does not tell.
const SEARCHED_BYTES_MAX: usize = 128 << 10;
/// What is said of a script that waits for what cannot come.
const NEVER_SETTLED: &str = "The script's promise is never settled: nothing is left to do.";
/// What is said of a script that ends with what cannot be looked at.
const UNREADABLE: &str = "The script ended with a value that cannot be read.";

/// What scripts have of the language: all but what asks for the time at once, or what `prelude/` has another of.
type Language =
    (Date, Eval, RegExpCompiler, RegExp, Json, Proxy, MapSet, TypedArrays, Promises, WeakRef);

/// Global names that nobody can declare anew, or that mean nothing by another name.
const CONSTANTS: &[&str] = &["globalThis", "undefined", "NaN", "Infinity", "eval"];

/// The files of `prelude/`, in the order in which they build on each other.
const PRELUDE: &[(&str, &str)] = &[
    ("globals", include_str!("prelude/globals.js")),
    ("errors", include_str!("prelude/errors.js")),
    ("console", include_str!("prelude/console.js")),
    ("encoding", include_str!("prelude/encoding.js")),
    ("buffer", include_str!("prelude/buffer.js")),
    ("url", include_str!("prelude/url.js")),
    ("crypto", include_str!("prelude/crypto.js")),
    ("forms", include_str!("prelude/forms.js")),
    ("events", include_str!("prelude/events.js")),
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

thread_local! {
    /// Whether a promise was rejected, also one that was looked after since.
    static HAS_REJECTIONS: Cell<bool> = const { Cell::new(false) };
}

/// The engine with the world of a script in it, and no script yet.
pub struct Engine {
    /// Where the script runs.
    context: Context,
    prelude: Prelude,
}

/// What the prelude hands back.
#[derive(Clone)]
struct Prelude {
    react: Persistent<Function<'static>>,
    has_formula: Persistent<Function<'static>>,
    fire: Persistent<Function<'static>>,
    describe: Persistent<Function<'static>>,
    rejected: Persistent<Function<'static>>,
    tell_rejections: Persistent<Function<'static>>,
}

/// What a script is called with.
pub struct Invoked<'a> {
    /// The arguments, as JSON.
    pub args: &'a str,
    /// The reactor's configuration, as JSON.
    pub configuration: &'a str,
    /// The invocation's id.
    pub id: &'a str,
    /// The reactor's id.
    pub reactor_id: &'a str,
    /// Which attempt it is.
    pub attempt: u32,
    /// Milliseconds until it has to be done.
    pub deadline_ms: u64,
}

/// How a call ended without an answer.
enum Stopped {
    /// It threw: the context has what.
    Thrown(JsError),
    /// It waits for what cannot come.
    NeverSettled,
}

impl From<JsError> for Stopped {
    fn from(error: JsError) -> Self {
        Self::Thrown(error)
    }
}

impl Engine {
    /// Sets the engine up. Asks the host for nothing.
    pub fn new() -> JsResult<Self> {
        let runtime = Runtime::new()?;
        runtime.set_gc_threshold(FIRST_COLLECTION_BYTES);
        runtime.set_max_stack_size(STACK_BYTES);
        let context = Context::custom::<Language>(&runtime)?;
        let prelude = context.with(|ctx| Prelude::new(&ctx))?;
        let rejected = prelude.rejected.clone();
        runtime.set_host_promise_rejection_tracker(Some(Box::new(
            move |ctx, promise, reason, is_handled| {
                HAS_REJECTIONS.set(true);
                if call::<_, ()>(&ctx, &rejected, (promise, reason, is_handled)).is_err() {
                    // One that cannot be kept is not told.
                    ctx.catch();
                }
            },
        )));
        let mut engine = Self { context, prelude };
        engine.warm_up()?;
        runtime.run_gc();
        Ok(engine)
    }

    fn warm_up(&mut self) -> JsResult<()> {
        let invoked = Invoked {
            args: "{}",
            configuration: "{}",
            id: "",
            reactor_id: "",
            attempt: 0,
            deadline_ms: 0,
        };
        let warmed_up = self.evaluate(WARM_UP).and_then(|()| self.call(&invoked));
        warmed_up.map_err(|_| JsError::Unknown)?;
        self.context.with(|ctx| {
            let module: Object = ctx.globals().get("module")?;
            module.set("exports", ctx.globals().get::<_, Value>("exports")?)
        })
    }

    /// Whether a script parses.
    pub fn check(&mut self, code: &str) -> Result<(), Error> {
        self.context
            .with(|ctx| parse(&ctx, SCRIPT, code).map(drop).map_err(|_| refused(&ctx, code)))
    }

    /// Evaluates a script's top level, and runs the jobs that it leaves.
    pub fn evaluate(&mut self, code: &str) -> Result<(), Error> {
        self.context.with(|ctx| {
            let script = parse(&ctx, SCRIPT, code).map_err(|_| refused(&ctx, code))?;
            let value = evaluate(&ctx, script);
            value.map(drop).map_err(|error| self.prelude.described(&ctx, error.into()))?;
            // Here and not in `call`: what they leave, and what they ask the host for, is the top level's.
            while ctx.execute_pending_job() {}
            Ok(())
        })
    }

    /// Refuses a script that leaves nothing to call. What its top level throws may be another thing in another run.
    pub fn examine(&mut self, code: &str) -> Result<(), Error> {
        if self.evaluate(code).is_err() {
            return Ok(());
        }
        self.context.with(|ctx| match call::<_, bool>(&ctx, &self.prelude.has_formula, ()) {
            // What was to leave one may be a promise that was rejected.
            Ok(false) if !HAS_REJECTIONS.get() => Err(answer::no_formula()),
            Ok(_) => Ok(()),
            Err(_) => {
                ctx.catch();
                Ok(())
            }
        })
    }

    /// Calls what the script exports.
    pub fn call(&mut self, invoked: &Invoked<'_>) -> Result<Response, Error> {
        self.context.with(|ctx| {
            self.prelude
                .react(&ctx, invoked)
                .map_err(|stopped| self.prelude.described(&ctx, stopped))
        })
    }
}

impl Prelude {
    /// Makes the world of a script.
    fn new(ctx: &Ctx<'_>) -> JsResult<Self> {
        let host = natives::all(ctx)?;
        let shared = Object::new(ctx.clone())?;
        let mut last = Value::new_undefined(ctx.clone());
        for (name, text) in PRELUDE {
            let path = CString::new(format!("tokamak/{name}.js"))?;
            let text = with_its_names(ctx, text)?;
            let file = evaluate(ctx, parse(ctx, &path, &text)?)?;
            last = file.get::<Function>()?.call((host.clone(), shared.clone()))?;
        }
        let made: Object = last.get()?;
        let function = |name: &str| -> JsResult<_> {
            let function: Function = made.get(name)?;
            Ok(Persistent::save(ctx, function))
        };
        Ok(Self {
            react: function("react")?,
            has_formula: function("hasFormula")?,
            fire: function("fire")?,
            describe: function("describe")?,
            rejected: function("rejected")?,
            tell_rejections: function("tellRejections")?,
        })
    }

    fn react(&self, ctx: &Ctx<'_>, invoked: &Invoked<'_>) -> Result<Response, Stopped> {
        let invocation = Object::new(ctx.clone())?;
        invocation.set("id", invoked.id)?;
        invocation.set("reactor_id", invoked.reactor_id)?;
        invocation.set("attempt", invoked.attempt)?;
        invocation.set("deadline_ms", natives::number(invoked.deadline_ms))?;
        let arguments = (
            ctx.json_parse(invoked.args)?,
            ctx.json_parse(invoked.configuration)?,
            invocation,
            natives::vault::is_bound(),
        );
        let promise: Promise = call(ctx, &self.react, arguments)?;
        self.settle(ctx, &promise)?;
        // What cannot be told of them is no failure of a run that has its answer.
        if HAS_REJECTIONS.get()
            && promise.state() == PromiseState::Resolved
            && call::<_, ()>(ctx, &self.tell_rejections, ()).is_err()
        {
            ctx.catch();
        }
        let parts =
            promise.result::<Vec<Option<natives::Text>>>().ok_or(Stopped::NeverSettled)??;
        let mut parts = parts.into_iter().map(|part| part.map(|text| answer::well_formed(text.0)));
        Ok(Response { raw: parts.next().flatten(), tokenize: parts.next().flatten() })
    }

    /// Runs jobs and timers until a promise is settled.
    fn settle<'js>(&self, ctx: &Ctx<'js>, promise: &Promise<'js>) -> Result<(), Stopped> {
        loop {
            while ctx.execute_pending_job() {}
            let is_pending = promise.state() == PromiseState::Pending;
            if !is_pending {
                return Ok(());
            }
            if !call::<_, bool>(ctx, &self.fire, ())? {
                return Err(Stopped::NeverSettled);
            }
        }
    }

    fn described(&self, ctx: &Ctx<'_>, stopped: Stopped) -> Error {
        let described = match stopped {
            // A job that found no memory to throw in may be what is waited for.
            Stopped::NeverSettled if memory::is_full() => memory::end(),
            Stopped::NeverSettled => return answer::runtime(NEVER_SETTLED, &[]),
            Stopped::Thrown(error) if !error.is_exception() => Err(error),
            Stopped::Thrown(_) => {
                let thrown = ctx.catch();
                if thrown.is_null() && memory::is_full() {
                    memory::end();
                }
                call::<_, natives::Text>(ctx, &self.describe, (thrown,))
            }
        };
        match described.ok().and_then(|text| answer::thrown(&text.0)) {
            Some(error) => error,
            None if memory::is_full() => memory::end(),
            None => answer::runtime(UNREADABLE, &[]),
        }
    }
}

/// A file of the prelude, with the names of the world as they are now: what a script declares by the same names, as it may,
/// stands before the global ones for all code, and is not even there yet while its own top level runs.
fn with_its_names(ctx: &Ctx<'_>, file: &str) -> JsResult<String> {
    let listed = parse(ctx, c"tokamak", "Object.getOwnPropertyNames(globalThis)")?;
    let names: Vec<String> = evaluate(ctx, listed)?.get()?;
    let names: Vec<String> =
        names.into_iter().filter(|name| !CONSTANTS.contains(&name.as_str())).collect();
    Ok(format!("(({{ {} }}) => (\n{file}\n))(globalThis)", names.join(", ")))
}

fn call<'js, A: IntoArgs<'js>, R: rquickjs::FromJs<'js>>(
    ctx: &Ctx<'js>,
    function: &Persistent<Function<'static>>,
    arguments: A,
) -> JsResult<R> {
    function.clone().restore(ctx)?.call(arguments)
}

/// What is said of a script that was not parsed just now.
fn refused(ctx: &Ctx<'_>, code: &str) -> Error {
    let Refusal { words, at } = Refusal::taken(ctx, code);
    let at = at.or_else(|| untold(ctx, code, &words));
    answer::does_not_parse(&words, at, code)
}

/// Why something was not parsed.
struct Refusal {
    words: String,
    /// The byte at which it is wrong, where the engine tells it.
    at: Option<usize>,
}

impl Refusal {
    /// The one that is pending.
    fn taken(ctx: &Ctx<'_>, code: &str) -> Self {
        let error = ctx.catch().into_object();
        let text = |name: &str| {
            let text = error.as_ref().and_then(|error| error.get::<_, natives::Text>(name).ok());
            text.unwrap_or_default().0
        };
        Self { words: text("message"), at: place::first(&text("stack"), code) }
    }
}

/// The byte at which something is wrong of which the engine does not tell where, such as a regular expression: of the parts
/// that the script begins with, the least that has the same fault ends with it, and one less breaks off within it.
fn untold(ctx: &Ctx<'_>, code: &str, words: &str) -> Option<usize> {
    if code.len() > SEARCHED_BYTES_MAX {
        return None;
    }
    let ends: Vec<usize> = code.char_indices().map(|(at, _)| at).collect();
    let part = |count: usize| {
        let part = &code[..ends[count]];
        parse(ctx, SCRIPT, part).err().map(|_| Refusal::taken(ctx, part))
    };
    let counts: Vec<usize> = (0..ends.len()).collect();
    let without =
        counts.partition_point(|count| part(*count).is_none_or(|refusal| refusal.words != words));
    let before = without.checked_sub(1)?;
    part(before).and_then(|refusal| refusal.at).or_else(|| ends.get(before).copied())
}

/// Parses a script.
#[expect(unsafe_code, reason = "the bindings parse nothing without evaluating it")]
fn parse<'js>(ctx: &Ctx<'js>, name: &CStr, code: &str) -> JsResult<Value<'js>> {
    // The parser looks at the byte behind the last one. A zero among the others is no end to it.
    let text = [code.as_bytes(), &[0]].concat();
    let flags = qjs::JS_EVAL_TYPE_GLOBAL | qjs::JS_EVAL_FLAG_COMPILE_ONLY;
    let length = code.len().try_into().map_err(|_| JsError::Unknown)?;
    // SAFETY: the text and the name live longer than the call, and the text ends with a zero behind its length.
    let parsed = unsafe {
        let flags = flags.cast_signed();
        qjs::JS_Eval(ctx.as_raw().as_ptr(), text.as_ptr().cast(), length, name.as_ptr(), flags)
    };
    owned(ctx, parsed)
}

/// Evaluates what was parsed.
#[expect(unsafe_code, reason = "the bindings evaluate nothing that was parsed before")]
fn evaluate<'js>(ctx: &Ctx<'js>, script: Value<'js>) -> JsResult<Value<'js>> {
    let context = ctx.as_raw().as_ptr();
    // SAFETY: the engine takes what it evaluates, so it is given a count of its own.
    let value =
        unsafe { qjs::JS_EvalFunction(context, qjs::JS_DupValue(context, script.as_raw())) };
    drop(script);
    owned(ctx, value)
}

/// What the engine gave, or that it threw.
#[expect(unsafe_code, reason = "of the engine's values only its author knows whose they are")]
fn owned<'js>(ctx: &Ctx<'js>, value: qjs::JSValue) -> JsResult<Value<'js>> {
    // SAFETY: what the engine returns is the caller's.
    let value = unsafe { Value::from_raw(ctx.clone(), value) };
    if value.is_exception() { Err(JsError::Exception) } else { Ok(value) }
}
