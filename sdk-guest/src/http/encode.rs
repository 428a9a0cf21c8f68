//! Text as parts of addresses and as forms.

/// Text as one part of an address: all but letters, digits, `-`, `.`, `_` and `~` as `%XX` of their UTF-8.
///
/// ```
/// # use tokamak_sdk::http;
/// assert_eq!(http::percent_encode("a/b & é"), "a%2Fb%20%26%20%C3%A9");
/// ```
pub fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        push(&mut encoded, byte);
    }
    encoded
}

/// Fields as `application/x-www-form-urlencoded`: blanks are `+`.
///
/// ```
/// # use tokamak_sdk::http;
/// assert_eq!(http::form(&[("card[name]", "Ada L."), ("q", "a&b")]), "card%5Bname%5D=Ada+L.&q=a%26b");
/// ```
pub fn form<N: AsRef<str>, V: AsRef<str>>(fields: &[(N, V)]) -> String {
    let mut encoded = String::new();
    for (name, value) in fields {
        if !encoded.is_empty() {
            encoded.push('&');
        }
        push_field(&mut encoded, name.as_ref());
        encoded.push('=');
        push_field(&mut encoded, value.as_ref());
    }
    encoded
}

fn push_field(encoded: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b' ' => encoded.push('+'),
            byte => push(encoded, byte),
        }
    }
}

fn push(encoded: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
        encoded.push(char::from(byte));
    } else {
        encoded.push('%');
        encoded.push(char::from(DIGITS[usize::from(byte >> 4)]));
        encoded.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

#[cfg(test)]
mod tests {
    use super::{form, percent_encode};

    #[test]
    fn what_has_a_meaning_in_addresses_is_encoded() {
        for (text, encoded) in [
            ("", ""),
            ("aZ09-._~", "aZ09-._~"),
            ("/?#[]@!$&'()*+,;=:%", "%2F%3F%23%5B%5D%40%21%24%26%27%28%29%2A%2B%2C%3B%3D%3A%25"),
            ("\r\n\0\"", "%0D%0A%00%22"),
            ("李", "%E6%9D%8E"),
        ] {
            assert_eq!(percent_encode(text), encoded, "{text:?}");
        }
    }

    #[test]
    fn every_byte_of_a_form_comes_back() {
        let all: String = (0..=255_u32).filter_map(char::from_u32).collect();
        let encoded = form(&[(&all, &all), (&String::new(), &String::new())]);
        let pairs: Vec<(&str, &str)> =
            encoded.split('&').map(|pair| pair.split_once('=').unwrap()).collect();
        assert_eq!(pairs.len(), 2);
        assert_eq!((decoded(pairs[0].0), decoded(pairs[0].1)), (all.clone(), all));
        assert_eq!(pairs[1], ("", ""));
        assert_eq!(form::<&str, &str>(&[]), "");
    }

    fn decoded(text: &str) -> String {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let Some((first, after)) = rest.split_first() {
            let (byte, after) = match first {
                b'%' => {
                    let digits = std::str::from_utf8(&after[..2]).unwrap();
                    (u8::from_str_radix(digits, 16).unwrap(), &after[2..])
                }
                b'+' => (b' ', after),
                byte => (*byte, after),
            };
            bytes.push(byte);
            rest = after;
        }
        String::from_utf8(bytes).unwrap()
    }
}
