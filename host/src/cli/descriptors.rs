//! How many files and sockets the server may have open at a time.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Asks for as many as the operator lets this process have. The usual number is one for programs that wait by
/// `select`, and far fewer than there may be clients, receivers and files of the store. Gives how many there may be.
pub fn raise_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => {
            tracing::debug!(from = ?current, to = ?maximum, "more files may be open");
            maximum
        }
        Err(error) => {
            tracing::warn!(%error, limit = ?current, "no more files may be open");
            current
        }
    }
}

#[cfg(test)]
mod tests {
    use super::raise_limit;
    use rustix::process::{Resource, getrlimit};

    #[test]
    fn what_is_allowed_is_taken() {
        let before = getrlimit(Resource::Nofile);
        for _ in 0..2 {
            assert_eq!(raise_limit(), before.maximum);
            let after = getrlimit(Resource::Nofile);
            assert_eq!((after.current, after.maximum), (before.maximum, before.maximum));
        }
    }
}
