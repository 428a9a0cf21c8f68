//! What the types of a request declare, for the expansion of [`formula`](macro@crate::formula), and whether a reactor can
//! be given all of it.

use super::{Kind, Member, Parameters, Shape};

/// What the arguments of a request type declare: `<OfArgs<Request<A, C>>>::SHAPE` is that of `A` when it tells, and
/// [`Undeclared::SHAPE`] otherwise.
#[doc(hidden)]
#[derive(Debug)]
pub struct OfArgs<R>(std::marker::PhantomData<R>);

/// The same of its configuration.
#[doc(hidden)]
#[derive(Debug)]
pub struct OfConfiguration<R>(std::marker::PhantomData<R>);

/// What stands in for types that do not tell.
#[doc(hidden)]
pub trait Undeclared {
    /// Nothing.
    const SHAPE: Option<Shape> = None;
}

impl<R> Undeclared for OfArgs<R> {}
impl<R> Undeclared for OfConfiguration<R> {}

impl<A: Parameters, C> OfArgs<crate::Request<A, C>> {
    /// What the arguments declare.
    pub const SHAPE: Option<Shape> = Some(A::SHAPE);
}

impl<A, C: Parameters> OfConfiguration<crate::Request<A, C>> {
    /// What the configuration declares.
    pub const SHAPE: Option<Shape> = Some(C::SHAPE);
}

/// Whether the members of a configuration are all its own: a server takes their names as they are, and knows none within.
#[doc(hidden)]
pub const fn is_flat(configuration: Option<Shape>) -> bool {
    let Some(shape) = configuration else { return true };
    let mut at = 0;
    while at < shape.members.len() {
        if !shape.members[at].shape.members.is_empty() {
            return false;
        }
        at += 1;
    }
    true
}

/// Whether a server can be told of each member of a configuration, and gives what it is told of alone.
#[doc(hidden)]
pub const fn is_declared(configuration: Option<Shape>) -> bool {
    let Some(shape) = configuration else { return true };
    let mut at = 0;
    while at < shape.members.len() {
        if !matches!(shape.members[at].shape.kind, Kind::String | Kind::Number | Kind::Boolean) {
            return false;
        }
        at += 1;
    }
    true
}

/// Whether no argument has a dot in its name, which a server would take for the way into an object.
#[doc(hidden)]
pub const fn is_undotted(arguments: Option<Shape>) -> bool {
    match arguments {
        Some(shape) => has_no_dots(shape.members),
        None => true,
    }
}

const fn has_no_dots(members: &[Member]) -> bool {
    let mut at = 0;
    while at < members.len() {
        let name = members[at].name.as_bytes();
        let mut byte = 0;
        while byte < name.len() {
            if name[byte] == b'.' {
                return false;
            }
            byte += 1;
        }
        if !has_no_dots(members[at].shape.members) {
            return false;
        }
        at += 1;
    }
    true
}
