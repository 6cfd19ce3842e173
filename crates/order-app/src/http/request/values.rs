//! Readers of single values, by the text that was sent.

use std::fmt::Display;
use std::str::FromStr;

use order_fsm::{Amount, InvalidMoney};
use serde_json::value::RawValue;
use time::OffsetDateTime;

use crate::time_format;

/// The longest reason or note.
const REASON_CHARS_MAX: usize = 500;

/// A text that is parsed into a type: an id, a currency.
pub(crate) fn parsed<T: FromStr<Err: Display>>(value: &RawValue) -> Result<T, String> {
    text(value)?.parse().map_err(|why: T::Err| why.to_string())
}

/// Money, as an integer in plain digits: `1000.0`, `1e3` and `"1000"` are refused.
pub(crate) fn amount(value: &RawValue) -> Result<Amount, String> {
    let digits = value.get();
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let minor_units = if plain {
        digits.parse::<i64>().ok()
    } else {
        None
    };
    let amount = minor_units
        .ok_or(InvalidMoney::Amount)
        .and_then(Amount::try_from);
    amount.map_err(|why| why.to_string())
}

/// A time.
pub(crate) fn time(value: &RawValue) -> Result<OffsetDateTime, String> {
    time_format::parse(&text(value)?).map_err(|why| why.to_string())
}

/// A boolean.
pub(crate) fn boolean(value: &RawValue) -> Result<bool, String> {
    match value.get() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// A reason or note by a person.
pub(crate) fn reason(value: &RawValue) -> Result<String, String> {
    checked_reason(text(value)?)
}

/// A reason or note, by its text.
pub(crate) fn checked_reason(text: String) -> Result<String, String> {
    // Counted as characters: a limit in bytes would differ by language.
    if !(1..=REASON_CHARS_MAX).contains(&text.chars().count()) {
        return Err(format!("must have 1 to {REASON_CHARS_MAX} characters"));
    }
    if text.contains('\0') {
        return Err("must not contain U+0000".to_owned());
    }
    Ok(text)
}

fn text(value: &RawValue) -> Result<String, String> {
    if !value.get().starts_with('"') {
        return Err("must be a string".to_owned());
    }
    // Only half of a surrogate pair is still possible.
    serde_json::from_str(value.get()).map_err(|_| "is not valid Unicode".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_amount(text: &str, expect: Option<i64>) {
        let value = RawValue::from_string(text.to_owned()).unwrap();
        assert_eq!(
            amount(&value).ok().map(Amount::minor_units),
            expect,
            "{text}"
        );
    }

    #[test]
    fn amounts_are_judged_by_their_text() {
        check_amount("1", Some(1));
        check_amount("1000", Some(1000));
        check_amount("9007199254740991", Some(Amount::MAX));
        for text in [
            "0",
            "-0",
            "-1",
            "-1000",
            "1000.0",
            "0.1",
            "100.1",
            "1e3",
            "1E+3",
            "1e400",
            "1e-400",
            "9007199254740992",
            "9007199254740993",
            "9223372036854775807",
            "9223372036854775808",
            "99999999999999999999999999",
            "\"1000\"",
            "null",
            "true",
            "[]",
            "[1]",
            "{}",
        ] {
            check_amount(text, None);
        }
    }

    #[test]
    fn reasons_are_counted_in_characters() {
        for (text, expect) in [
            ("x".to_owned(), true),
            ("é".repeat(500), true),
            ("é".repeat(501), false),
            (String::new(), false),
            ("a\u{0}b".to_owned(), false),
        ] {
            let value = serde_json::value::to_raw_value(&text).unwrap();
            assert_eq!(reason(&value).is_ok(), expect, "{text:?}");
        }
    }
}
