//! Signatures of webhooks, by Standard Webhooks (decisions §8).
//!
//! A secret is shown as `whsec_` and base64; what is signed is the message's id, the time of the try and the body, with
//! dots between them.

use std::fmt;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;
use zeroize::Zeroizing;

use super::entropy::Entropy;

/// Random bytes of a secret.
const SECRET_BYTES: usize = 32;
const PREFIX: &str = "whsec_";

/// What webhooks of a tenant are signed with, as its receivers are given it.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(Zeroizing<String>);

/// The text is no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a stored signing secret has an unknown form")]
pub struct InvalidSecret;

impl SigningSecret {
    /// Draws a secret.
    pub fn draw(entropy: &dyn Entropy) -> Self {
        let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
        entropy.fill(bytes.as_mut_slice());
        Self(Zeroizing::new(format!("{PREFIX}{}", STANDARD.encode(bytes.as_slice()))))
    }

    /// A secret that was drawn before.
    pub fn given(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text, for the one who is to check signatures.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(..)")
    }
}

/// The signature of one try, with its version in front.
pub fn sign(
    secret: &SigningSecret,
    id: &str,
    sent_at_s: u64,
    body: &[u8],
) -> Result<String, InvalidSecret> {
    let text = secret.0.strip_prefix(PREFIX).ok_or(InvalidSecret)?;
    let bytes = Zeroizing::new(STANDARD.decode(text).map_err(|_| InvalidSecret)?);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
    let mut context = hmac::Context::with_key(&key);
    context.update(format!("{id}.{sent_at_s}.").as_bytes());
    context.update(body);
    Ok(format!("v1,{}", STANDARD.encode(context.sign())))
}

#[cfg(test)]
mod tests {
    use super::{SigningSecret, sign};
    use crate::crypto::entropy::SeededEntropy;

    /// The example that the libraries of Standard Webhooks test with.
    #[test]
    fn the_published_example() {
        let secret = SigningSecret::given("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned());
        let body = br#"{"test": 2432232314}"#;
        let signature = sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signature.unwrap(), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn drawn_secrets_are_accepted_by_another_implementation_and_hidden() {
        let secret = SigningSecret::draw(&SeededEntropy::new(3));
        let other = standardwebhooks::Webhook::new(secret.expose()).unwrap();
        let theirs = other.sign("msg_1", 1_700_000_000, b"{}").unwrap();
        assert_eq!(sign(&secret, "msg_1", 1_700_000_000, b"{}").unwrap(), theirs);
        assert_eq!(format!("{secret:?}"), "SigningSecret(..)");
        for wrong in ["", "whsec_", "whsec_!", "AAAA"] {
            let result = sign(&SigningSecret::given(wrong.to_owned()), "a", 1, b"");
            assert_eq!(result.is_err(), wrong != "whsec_", "{wrong}");
        }
    }
}
