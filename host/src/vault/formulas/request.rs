//! The body of `POST` and `PUT /reactor-formulas`, checked.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::egress::HostPattern;
use crate::limits::{
    ALLOWED_HOSTS_MAX, COMPONENT_BYTES_MAX, DESCRIPTION_CHARS_MAX, FORMULA_MEMORY_MB_DEFAULT,
    FORMULA_MEMORY_MB_MAX, ICON_BYTES_MAX, SCRIPT_BYTES_MAX,
};
use crate::model::faults::Faults;
use crate::model::formula::{FormulaLimits, Language, Undeclared};
use crate::model::member::{Few, FromJson, Member};
use crate::model::name::check_name;
use crate::model::parameter::{self, ConfigurationEntry, Parameter};
use crate::vault::Error;

/// Body of `POST /reactor-formulas`, and of `PUT /reactor-formulas/{id}`, where the code may be absent.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = CreateFormula)]
pub struct WriteFormula {
    /// A name for people.
    #[schema(value_type = String, min_length = 1, max_length = 200, pattern = "\\S", required = true)]
    #[serde(default)]
    name: Member<String>,
    /// What it does.
    #[schema(value_type = Option<String>, max_length = 4000)]
    #[serde(default)]
    description: Member<String>,
    /// A picture, as a `data:` or `https:` address.
    #[schema(value_type = Option<String>, max_length = 65536, pattern = "^(https://|data:image/)")]
    #[serde(default)]
    icon: Member<String>,
    /// A WebAssembly component of the world `tokamak:formula/formula`, in base64.
    #[schema(value_type = Option<String>, content_encoding = "base64")]
    #[serde(default)]
    component: Member<String>,
    /// A script, instead of a component: JavaScript that assigns a function to `module.exports`.
    #[schema(value_type = Option<String>, max_length = 1_048_576)]
    #[serde(default)]
    code: Member<String>,
    /// What the code is: `wasm` for a component, `javascript` for a script; told by which of them is there.
    #[schema(value_type = Option<Language>)]
    #[serde(default)]
    language: Member<String>,
    /// What a reactor must configure.
    #[schema(value_type = Option<Vec<ConfigurationEntry>>, max_items = 200)]
    #[serde(default)]
    configuration: Member<Value>,
    /// What an invocation must pass.
    #[schema(value_type = Option<Vec<Parameter>>, max_items = 200)]
    #[serde(default)]
    request_parameters: Member<Value>,
    /// What becomes of other arguments.
    #[schema(value_type = Option<Undeclared>)]
    #[serde(default)]
    undeclared_arguments: Member<String>,
    /// Where it may send requests to: names, `*.suffix` for those below one, either with a port if it is not the
    /// scheme's usual one, or `*`. What ends in a number is an address of four decimal numbers. No part of a name is longer
    /// than 63 characters.
    #[schema(value_type = Option<Vec<String>>, max_items = 100,
        pattern = "^(\\*|((\\*\\.)?([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.)*\
            ([0-9]*[A-WYZa-wyz]([A-Za-z0-9-]*[A-Za-z0-9])?\
            |([1-9][0-9]*|0[0-9]+)?[Xx]([A-Za-z0-9-]*[A-Za-z0-9])?\
            |0[Xx][A-Za-z0-9-]*([G-Zg-z]|[G-Zg-z-][A-Za-z0-9-]*[A-Za-z0-9])\
            |[0-9]+-[A-Za-z0-9-]*[A-Za-z0-9])\
            |(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\
            (\\.(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])){3})(:0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}\
            |655[0-2][0-9]|6553[0-5]))?)$")]
    #[serde(default)]
    allowed_hosts: Member<Few<Host, 0, ALLOWED_HOSTS_MAX>>,
    /// Its bounds.
    #[schema(value_type = Option<WriteLimits>)]
    #[serde(default)]
    limits: Member<Map<String, Value>>,
}

/// Bounds of one invocation, in a request.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only the description reads it")]
struct WriteLimits {
    /// Memory, in MiB, 64 when absent; of a script at least 2, since what runs it takes more than 1.
    #[schema(minimum = 1, maximum = 512)]
    memory_mb: Option<u32>,
}

/// What a formula does, its length checked.
///
/// It is large, and stored more than once when a change is made anew.
#[derive(Clone)]
pub struct Code {
    /// What it is.
    pub(super) language: Language,
    /// The component, or the script in UTF-8.
    pub(super) bytes: Arc<Vec<u8>>,
}

impl Code {
    /// A component.
    pub(super) fn component(bytes: Vec<u8>) -> Self {
        Self { language: Language::Wasm, bytes: Arc::new(bytes) }
    }
}

/// Memory of a script, least, in MiB: the engine that runs it begins with more than 1.
const SCRIPT_MEMORY_MB_MIN: u32 = 2;

/// What is said when there is neither a component nor a script.
const REQUIRED: &str = "is required, or code is";
const MEMORY: &str = "limits.memory_mb";

/// A formula's description, valid.
#[derive(Clone)]
pub(super) struct Definition {
    /// What its code is said to be.
    pub(super) said: Option<Language>,
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) icon: Option<String>,
    pub(super) configuration: Vec<Parameter>,
    pub(super) request_parameters: Vec<Parameter>,
    pub(super) undeclared_arguments: Undeclared,
    pub(super) allowed_hosts: Vec<String>,
    pub(super) limits: FormulaLimits,
}

impl Definition {
    /// Checks what may be for one language and not for another, once it is known which it is.
    pub(super) fn check_for(&self, language: Language) -> Result<(), Error> {
        if self.said.is_some_and(|said| said != language) {
            return Err(Error::invalid("language", "is not that of the code, which is kept"));
        }
        if language == Language::Javascript && self.limits.memory_mb < SCRIPT_MEMORY_MB_MIN {
            return Err(Error::invalid(MEMORY, too_little_for_a_script()));
        }
        Ok(())
    }
}

impl WriteFormula {
    /// Checks a body that must have code.
    pub(super) fn check_with_code(self) -> Result<(Definition, Code), Error> {
        if !self.component.is_there() && !self.code.is_there() {
            let mut faults = Faults::one("component", REQUIRED);
            if let Err(Error::Invalid(inner)) = self.check() {
                faults.extend_under("", inner);
            }
            return Err(faults.into());
        }
        match self.check()? {
            (definition, Some(code)) => Ok((definition, code)),
            (_, None) => Err(Error::invalid("component", REQUIRED)),
        }
    }

    /// Checks a body that may have code.
    pub(super) fn check(self) -> Result<(Definition, Option<Code>), Error> {
        let mut faults = Faults::new();
        let name = self.name.required("name", &mut faults);
        if let Some(name) = &name {
            check_name(name, &mut faults);
        }
        let description = self.description.optional("description", &mut faults);
        if description.as_ref().is_some_and(|text| text.chars().count() > DESCRIPTION_CHARS_MAX) {
            let message = format!("must have at most {DESCRIPTION_CHARS_MAX} characters");
            faults.add("description", message);
        }
        let icon = self.icon.optional("icon", &mut faults);
        check_icon(icon.as_deref(), &mut faults);
        let given = (self.component.is_there(), self.code.is_there());
        let component = self.component.optional("component", &mut faults);
        let script = self.code.optional("code", &mut faults);
        let language = self.language.optional("language", &mut faults);
        let said = check_language(given, language.as_deref(), &mut faults);
        let code = read_code(component, script, &mut faults);
        let mut parameters = |path: &str, member: Member<Value>, kinds| {
            let value = member.optional(path, &mut faults).unwrap_or_else(|| Value::Array(vec![]));
            match parameter::parse_list(&value, kinds) {
                Ok(parameters) => parameters,
                Err(inner) => {
                    faults.extend_under(path, inner);
                    Vec::new()
                }
            }
        };
        let configuration = parameters(
            "configuration",
            self.configuration,
            parameter::DeclarationList::Configuration,
        );
        let request_parameters = parameters(
            "request_parameters",
            self.request_parameters,
            parameter::DeclarationList::Request,
        );
        let undeclared = self.undeclared_arguments.optional("undeclared_arguments", &mut faults);
        let undeclared_arguments = read_undeclared(undeclared.as_deref(), &mut faults);
        let hosts = self.allowed_hosts.optional("allowed_hosts", &mut faults);
        let hosts = hosts.map_or_else(Vec::new, |Few(hosts)| hosts);
        let limits = self.limits.optional("limits", &mut faults).unwrap_or_default();
        let limits = read_limits(limits, &mut faults);
        // Whatever is in it, it is a script.
        if given == (false, true) && limits.memory_mb < SCRIPT_MEMORY_MB_MIN {
            faults.add(MEMORY, too_little_for_a_script());
        }
        let definition = Definition {
            said,
            name: name.unwrap_or_default(),
            description,
            icon,
            configuration,
            request_parameters,
            undeclared_arguments,
            allowed_hosts: hosts.into_iter().map(|Host(text)| text).collect(),
            limits,
        };
        Ok(faults.into_result((definition, code))?)
    }
}

fn check_icon(icon: Option<&str>, faults: &mut Faults) {
    let Some(icon) = icon else { return };
    if icon.len() > ICON_BYTES_MAX {
        faults.add("icon", format!("must have at most {ICON_BYTES_MAX} bytes"));
    }
    // Whoever shows it puts it into a page: only what can do no harm there.
    if !icon.starts_with("https://") && !icon.starts_with("data:image/") {
        faults.add("icon", "must be an https: or data:image/ address");
    }
}

/// One of component and script may be given, which is what `language` says if it says anything; whatever is in it.
fn check_language(
    given: (bool, bool),
    language: Option<&str>,
    faults: &mut Faults,
) -> Option<Language> {
    if given == (true, true) {
        faults.add("code", "must be absent when there is a component");
    }
    let said = match language? {
        "wasm" if given != (false, true) => Some(Language::Wasm),
        "javascript" if given != (true, false) => Some(Language::Javascript),
        _ => None,
    };
    if said.is_none() {
        faults.add("language", "must be wasm for a component and javascript for code");
    }
    said
}

/// What is in the one of the two that is given.
fn read_code(
    component: Option<String>,
    script: Option<String>,
    faults: &mut Faults,
) -> Option<Code> {
    match (component, script) {
        (Some(text), _) => read_component(&text, faults),
        (None, Some(text)) => read_script(text, faults),
        (None, None) => None,
    }
}

fn read_script(text: String, faults: &mut Faults) -> Option<Code> {
    if text.len() > SCRIPT_BYTES_MAX {
        faults.add("code", format!("must have at most {SCRIPT_BYTES_MAX} bytes"));
        return None;
    }
    Some(Code { language: Language::Javascript, bytes: Arc::new(text.into_bytes()) })
}

fn read_component(text: &str, faults: &mut Faults) -> Option<Code> {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    if (text.len() / 4 * 3).saturating_sub(padding) > COMPONENT_BYTES_MAX {
        faults.add("component", format!("must have at most {COMPONENT_BYTES_MAX} bytes"));
        return None;
    }
    let bytes = faults.check("component", STANDARD.decode(text).map_err(|_| "must be base64"))?;
    Some(Code::component(bytes))
}

fn read_undeclared(text: Option<&str>, faults: &mut Faults) -> Undeclared {
    match text {
        None | Some("forward") => Undeclared::Forward,
        Some("drop") => Undeclared::Drop,
        Some(_) => {
            faults.add("undeclared_arguments", "must be forward or drop");
            Undeclared::Forward
        }
    }
}

fn read_limits(mut members: Map<String, Value>, faults: &mut Faults) -> FormulaLimits {
    let default = FormulaLimits { memory_mb: FORMULA_MEMORY_MB_DEFAULT };
    let Some(value) = members.remove("memory_mb").filter(|value| !value.is_null()) else {
        return default;
    };
    match u32::from_json(value) {
        Ok(memory_mb) if (1..=FORMULA_MEMORY_MB_MAX).contains(&memory_mb) => {
            FormulaLimits { memory_mb }
        }
        _ => {
            let message = format!("must be a whole number from 1 to {FORMULA_MEMORY_MB_MAX}");
            faults.add(MEMORY, message);
            default
        }
    }
}

fn too_little_for_a_script() -> String {
    format!("must be at least {SCRIPT_MEMORY_MB_MIN} for a script")
}

/// A pattern of hosts, as it stands in a request.
struct Host(String);

impl FromJson for Host {
    fn from_json(value: Value) -> Result<Self, Faults> {
        let text = String::from_json(value)?;
        let parsed = HostPattern::parse(&text);
        parsed.map(|_| Self(text)).map_err(|reason| Faults::one("", reason))
    }
}

#[cfg(test)]
mod tests {
    use super::WriteFormula;
    use crate::limits::{COMPONENT_BYTES_MAX, SCRIPT_BYTES_MAX};
    use crate::model::member;
    use crate::vault::Error;
    use serde_json::{Value, json};

    fn faults(body: Value) -> Vec<String> {
        match member::read::<WriteFormula>(body).unwrap().check_with_code() {
            Err(Error::Invalid(faults)) => faults.into_map().into_keys().collect(),
            Err(error) => panic!("{error}"),
            Ok(_) => Vec::new(),
        }
    }

    #[test]
    fn every_fault_is_named() {
        let body = json!({
            "icon": "javascript:alert(1)", "undeclared_arguments": "keep",
            "limits": {"memory_mb": 513}, "allowed_hosts": ["a b"], "component": "%"
        });
        let expected = [
            "allowed_hosts[0]",
            "component",
            "icon",
            "limits.memory_mb",
            "name",
            "undeclared_arguments",
        ];
        assert_eq!(faults(body), expected);
        assert_eq!(faults(json!({"name": "a"})), ["component"]);
        assert_eq!(faults(json!({"name": "a", "code": 5})), ["code"]);
        let large = "x".repeat(SCRIPT_BYTES_MAX + 1);
        assert_eq!(faults(json!({"name": "a", "code": large})), ["code"]);
        let (wasm, script) = ("AGFzbQ==", "module.exports = () => {}");
        for (body, expected) in [
            (json!({"code": script, "component": wasm}), vec!["code"]),
            (json!({"code": script, "language": "javascript"}), vec![]),
            (json!({"code": script, "language": "wasm"}), vec!["language"]),
            (json!({"component": wasm, "language": "javascript"}), vec!["language"]),
            (json!({"component": wasm, "language": "wasm"}), vec![]),
            (json!({"component": wasm, "language": "python"}), vec!["language"]),
            // What is in them hides nothing of that.
            (json!({"component": "%", "language": "javascript"}), vec!["component", "language"]),
            (json!({"component": "%", "code": 5}), vec!["code", "component"]),
            (json!({"code": 5, "language": "wasm"}), vec!["code", "language"]),
            // What runs scripts takes more than that, and components may take less.
            (json!({"code": script, "limits": {"memory_mb": 1}}), vec!["limits.memory_mb"]),
            (json!({"code": 5, "limits": {"memory_mb": 1}}), vec!["code", "limits.memory_mb"]),
            (json!({"code": script, "limits": {"memory_mb": 2}}), vec![]),
            (json!({"component": wasm, "limits": {"memory_mb": 1}}), vec![]),
        ] {
            let mut body = body;
            body["name"] = json!("a");
            assert_eq!(faults(body.clone()), expected, "{body}");
        }
        assert!(faults(json!({"name": "a", "component": "AGFzbQ=="})).is_empty());
        // To the byte: what is a little longer is not for the compiler to refuse.
        let longest = "AAAA".repeat(COMPONENT_BYTES_MAX / 3);
        for (end, fits) in [("AAA=", true), ("AAAA", false)] {
            let component = format!("{longest}{end}");
            assert_eq!(faults(json!({"name": "a", "component": component})).is_empty(), fits);
        }
    }
}
