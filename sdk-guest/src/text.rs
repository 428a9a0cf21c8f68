//! Texts in plain letters, as payment files take them and as names are compared. With the feature `text`.

use unicode_normalization::char::decompose_canonical;

/// A text without the accents of its letters, nor the points of Hebrew and Arabic ones. Latin letters that are more than
/// one with an accent, such as `ł`, `ø` and `ß`, become those that stand for them, and the wide letters of East Asian texts
/// the usual ones. However a text composes such letters, what comes of it is the same. All else stays, with Hangul and kana
/// in their parts.
///
/// ```
/// # use tokamak_sdk::text::without_accents;
/// assert_eq!(without_accents("Nguyễn Thị Ánh, Größe"), "Nguyen Thi Anh, Grosse");
/// assert_eq!(without_accents("Zoe\u{308}"), without_accents("Zoë"));
/// ```
pub fn without_accents(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        decompose_canonical(letter, |part| match part {
            accent if is_accent(accent) => {}
            part => match spelled(part) {
                Some(letters) => plain.push_str(letters),
                None => plain.push(narrow(part)),
            },
        });
    }
    plain
}

/// Whether a character is an accent on the one before it, and no letter by itself in any script.
fn is_accent(character: char) -> bool {
    matches!(
        character,
        '\u{300}'..='\u{36f}'
            // Hebrew and Arabic points, in whatever order they follow their letter.
            | '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}' | '\u{5c2}' | '\u{5c4}' | '\u{5c5}' | '\u{5c7}'
            | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}' | '\u{670}' | '\u{6d6}'..='\u{6dc}' | '\u{6df}'..='\u{6e4}'
            | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}'
    )
}

/// What stands for a Latin letter that has no accent to take off.
fn spelled(letter: char) -> Option<&'static str> {
    Some(match letter {
        'Æ' => "AE",
        'æ' => "ae",
        'Ɓ' => "B",
        'ɓ' => "b",
        'Ð' | 'Đ' | 'Ɖ' | 'Ɗ' => "D",
        'ð' | 'đ' | 'ɖ' | 'ɗ' => "d",
        'Ǆ' | 'Ǳ' => "DZ",
        'ǅ' | 'ǲ' => "Dz",
        'ǆ' | 'ǳ' => "dz",
        'Ə' | 'Ǝ' | 'Ɛ' => "E",
        'ə' | 'ǝ' | 'ɛ' => "e",
        'ﬀ' => "ff",
        'ﬁ' => "fi",
        'ﬂ' => "fl",
        'ﬃ' => "ffi",
        'ﬄ' => "ffl",
        'Ħ' => "H",
        'ħ' => "h",
        'ı' => "i",
        'Ƙ' => "K",
        'ƙ' | 'ĸ' => "k",
        'Ł' | 'Ŀ' => "L",
        'ł' | 'ŀ' => "l",
        'Ǉ' => "LJ",
        'ǈ' => "Lj",
        'ǉ' => "lj",
        'Ŋ' | 'Ɲ' => "N",
        'ŋ' | 'ɲ' | 'ŉ' => "n",
        'Ǌ' => "NJ",
        'ǋ' => "Nj",
        'ǌ' => "nj",
        'Ø' | 'Ɔ' | 'Ɵ' => "O",
        'ø' | 'ɔ' | 'ɵ' => "o",
        'Œ' => "OE",
        'œ' => "oe",
        'ſ' => "s",
        'ﬅ' | 'ﬆ' => "st",
        'ẞ' => "SS",
        'ß' => "ss",
        'Þ' => "TH",
        'þ' => "th",
        'Ŧ' => "T",
        'ŧ' => "t",
        'Ƴ' => "Y",
        'ƴ' => "y",
        _ => return None,
    })
}

/// The usual form of a wide one.
fn narrow(character: char) -> char {
    const WIDER: u32 = '\u{ff01}' as u32 - '!' as u32;
    match character {
        '\u{3000}' => ' ',
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(character as u32 - WIDER).unwrap_or(character),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::without_accents;

    #[test]
    fn letters_lose_their_accents_and_nothing_else() {
        for (text, plain) in [
            ("", ""),
            ("Ada Lovelace-17", "Ada Lovelace-17"),
            ("ÀÉÎÕÜÝ àéîõüýÿ", "AEIOUY aeiouyy"),
            ("Ştefan Ștefan Țuca Ţuca", "Stefan Stefan Tuca Tuca"),
            ("Ėglė Ķirsis Ņina Ľubica Ŕeháková Ŵyn Ģ", "Egle Kirsis Nina Lubica Rehakova Wyn G"),
            ("Nguyễn Văn Đức, Ứ Ơ ợ", "Nguyen Van Duc, U O o"),
            ("Ḥasan İzmir ısı", "Hasan Izmir isi"),
            (
                "Łącka Øre Größe ẞ Æsir œuvre Þór Ŋ Ħal",
                "Lacka Ore Grosse SS AEsir oeuvre THor N Hal",
            ),
            ("Əliyev Ɗangote Ɓala Ƙ Ɔ Ɛ", "Eliyev Dangote Bala K O E"),
            ("Gabrieŀla ﬁona ﬄ Ǆemal ǋ", "Gabriella fiona ffl DZemal Nj"),
            ("e\u{301}\u{323}A\u{30a}", "eA"),
            ("Σίσυφος й", "Σισυφος и"),
            ("Ａｄａ\u{3000}１２！", "Ada 12!"),
            ("李 \u{1f600}", "李 \u{1f600}"),
        ] {
            assert_eq!(without_accents(text), plain, "{text}");
        }
    }

    #[test]
    fn composed_and_decomposed_texts_are_one() {
        use unicode_normalization::UnicodeNormalization as _;

        for text in ["Ėglė", "한글", "ガギ", "Ŕ", "Ŵyn", "Ștefan Țuca", "Nguyễn Văn Đức", "Σίσυφος"]
        {
            let decomposed: String = text.nfd().collect();
            assert_ne!(decomposed, text);
            assert_eq!(without_accents(&decomposed), without_accents(text), "{text}");
        }
        for (one, other) in [
            ("\u{628}\u{651}\u{64e}", "\u{628}\u{64e}\u{651}"),
            ("\u{fb2a}\u{5b8}\u{5dc}", "\u{5e9}\u{5b8}\u{5c1}\u{5dc}"),
            ("a\u{323}\u{301}", "a\u{301}\u{323}"),
        ] {
            assert_eq!(without_accents(one), without_accents(other), "{one}");
        }
        // These are letters of their own.
        assert_ne!(without_accents("ガ"), without_accents("カ"));
    }
}
