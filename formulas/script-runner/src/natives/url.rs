//! Addresses, as the standard of URLs has them.

use rquickjs::prelude::{Func, Opt};
use rquickjs::{Ctx, Object, Result};
use url::{Url, quirks};

use super::{Text, error};

/// Offers what this file has.
pub fn offer(host: &Object<'_>) -> Result<()> {
    host.set("url", Func::from(parse))?;
    host.set("urlSet", Func::from(set))
}

/// `url(address, base)`: its parts, or undefined
fn parse(ctx: Ctx<'_>, address: Text, base: Opt<Option<Text>>) -> Result<Option<Object<'_>>> {
    let base = base.0.flatten().map(|base| Url::parse(&base.0)).transpose();
    let parsed = base.and_then(|base| Url::options().base_url(base.as_ref()).parse(&address.0));
    parsed.ok().map(|url| parts(&ctx, &url)).transpose()
}

/// `urlSet(address, part, value)`: the parts of the address with that part; what cannot be set stays as it is
fn set(ctx: Ctx<'_>, address: Text, part: Text, value: Text) -> Result<Object<'_>> {
    let mut url = Url::parse(&address.0).map_err(|_| error(&ctx, "Invalid URL"))?;
    // A part that is refused stays, as the standard has it.
    let _ = match part.0.as_str() {
        "protocol" => quirks::set_protocol(&mut url, &value.0),
        "username" => quirks::set_username(&mut url, &value.0),
        "password" => quirks::set_password(&mut url, &value.0),
        "host" => quirks::set_host(&mut url, &value.0),
        "hostname" => quirks::set_hostname(&mut url, &value.0),
        "port" => quirks::set_port(&mut url, &value.0),
        "pathname" => {
            quirks::set_pathname(&mut url, &value.0);
            Ok(())
        }
        "search" => {
            quirks::set_search(&mut url, &value.0);
            Ok(())
        }
        "hash" => {
            quirks::set_hash(&mut url, &value.0);
            Ok(())
        }
        _ => Err(()),
    };
    parts(&ctx, &url)
}

fn parts<'js>(ctx: &Ctx<'js>, url: &Url) -> Result<Object<'js>> {
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
    let made = Object::new(ctx.clone())?;
    for (name, text) in texts {
        made.set(name, text)?;
    }
    Ok(made)
}
