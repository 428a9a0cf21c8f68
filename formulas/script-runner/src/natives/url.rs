//! Addresses, as the standard of URLs has them.

use boa_engine::{Context, JsResult, JsString, JsValue};
use url::{Url, quirks};

use super::{Table, object, text};
use crate::engine::error;

/// What this file offers.
pub const TABLE: Table = &[("url", parse), ("urlSet", set)];

/// `url(address, base)`: its parts, or undefined
fn parse(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let address = text(arguments, 0)?;
    let base = match arguments.get(1).and_then(JsValue::as_string) {
        Some(base) => match Url::parse(&base.to_std_string_lossy()) {
            Ok(base) => Some(base),
            Err(_) => return Ok(JsValue::undefined()),
        },
        None => None,
    };
    let url = Url::options().base_url(base.as_ref()).parse(&address);
    Ok(url.map_or_else(|_| JsValue::undefined(), |url| parts(&url, context)))
}

/// `urlSet(address, part, value)`: the parts of the address with that part; what cannot be set stays as it is
fn set(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let mut url = Url::parse(&text(arguments, 0)?).map_err(|_| error("Invalid URL"))?;
    let value = text(arguments, 2)?;
    // A part that is refused stays, as the standard has it.
    let _ = match text(arguments, 1)?.as_str() {
        "protocol" => quirks::set_protocol(&mut url, &value),
        "username" => quirks::set_username(&mut url, &value),
        "password" => quirks::set_password(&mut url, &value),
        "host" => quirks::set_host(&mut url, &value),
        "hostname" => quirks::set_hostname(&mut url, &value),
        "port" => quirks::set_port(&mut url, &value),
        "pathname" => {
            quirks::set_pathname(&mut url, &value);
            Ok(())
        }
        "search" => {
            quirks::set_search(&mut url, &value);
            Ok(())
        }
        "hash" => {
            quirks::set_hash(&mut url, &value);
            Ok(())
        }
        _ => Err(()),
    };
    Ok(parts(&url, context))
}

fn parts(url: &Url, context: &mut Context) -> JsValue {
    let origin = quirks::origin(url);
    let texts = [
        ("href", quirks::href(url)),
        ("origin", origin.as_str()),
        ("protocol", quirks::protocol(url)),
        ("username", quirks::username(url)),
        ("password", quirks::password(url)),
        ("host", quirks::host(url)),
        ("hostname", quirks::hostname(url)),
        ("port", quirks::port(url)),
        ("pathname", quirks::pathname(url)),
        ("search", quirks::search(url)),
        ("hash", quirks::hash(url)),
    ];
    let members = texts.map(|(name, text)| (name, JsString::from(text).into()));
    object(context, &members).into()
}
