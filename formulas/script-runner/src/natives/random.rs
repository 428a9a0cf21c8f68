//! Randomness.

use std::cell::RefCell;

use rquickjs::prelude::Func;
use rquickjs::{Ctx, Object, Result};

use super::bytes::to_hex;
use super::{Bytes, error, new_bytes};

/// Bytes that are drawn at a time, at most.
const BYTES_MAX: usize = 64 << 10;
/// Numbers that are drawn at a time.
const NUMBERS: usize = 32;
/// The bits of a number below one that are random, and one as so many steps.
const NUMBER_BITS: u32 = 53;

thread_local! {
    /// What was drawn for `Math.random` and not given yet.
    static DRAWN: RefCell<Vec<[u8; 8]>> = const { RefCell::new(Vec::new()) };
}

/// Offers what this file has.
pub fn offer(host: &Object<'_>) -> Result<()> {
    host.set("random", Func::from(random))?;
    host.set("uuid", Func::from(uuid))?;
    host.set("number", Func::from(number))
}

fn draw(ctx: &Ctx<'_>, bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes).map_err(|_| error(ctx, "the host gives no randomness"))
}

/// `random(length)`: a `Uint8Array`
fn random(ctx: Ctx<'_>, length: f64) -> Result<Bytes<'_>> {
    let length = super::count(length);
    if length > BYTES_MAX {
        return Err(error(&ctx, "at most 65536 random bytes at a time"));
    }
    let mut drawn = vec![0; length];
    draw(&ctx, &mut drawn)?;
    new_bytes(&ctx, &drawn)
}

/// `uuid()`: a random one, of version 4
fn uuid(ctx: Ctx<'_>) -> Result<String> {
    let mut drawn = [0; 16];
    draw(&ctx, &mut drawn)?;
    drawn[6] = drawn[6] & 0x0f | 0x40;
    drawn[8] = drawn[8] & 0x3f | 0x80;
    let mut made = to_hex(&drawn);
    for at in [20, 16, 12, 8] {
        made.insert(at, '-');
    }
    Ok(made)
}

/// `number()`: for `Math.random`. The engine's own is seeded when it is set up, and so would be the same in every run.
fn number(ctx: Ctx<'_>) -> Result<f64> {
    let next = DRAWN.with_borrow_mut(Vec::pop);
    let next = next.map_or_else(|| drawn_anew(&ctx), Ok)?;
    let steps = super::number(u64::from_le_bytes(next) >> (u64::BITS - NUMBER_BITS));
    Ok(steps / super::number(1 << NUMBER_BITS))
}

fn drawn_anew(ctx: &Ctx<'_>) -> Result<[u8; 8]> {
    let mut bytes = [0; 8 * NUMBERS];
    draw(ctx, &mut bytes)?;
    let mut drawn = bytes.as_chunks().0.to_vec();
    let next = drawn.pop().unwrap_or_default();
    DRAWN.set(drawn);
    Ok(next)
}
