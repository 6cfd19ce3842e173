//! Times on the wire: RFC 3339 with an offset in, UTC with microseconds out.

use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{OffsetDateTime, UtcOffset};

const OUT: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");

/// The error for an invalid time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an RFC 3339 time with an offset, of the years 0000 to 9999 in UTC")]
pub struct InvalidTime;

/// Where the date ends: `2026-11-29`.
const SEPARATOR_AT: usize = 10;

/// Reads a time. All times from outside are read here.
///
/// # Errors
/// On anything but RFC 3339, and on times whose year in UTC has not four digits.
pub fn parse(text: &str) -> Result<OffsetDateTime, InvalidTime> {
    // `time` accepts any byte as the separator. The grammar has `T` and `t`, and allows a space.
    let separator = text.as_bytes().get(SEPARATOR_AT);
    if !matches!(separator, Some(b'T' | b't' | b' ')) {
        return Err(InvalidTime);
    }
    let at = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| InvalidTime)?;
    let at = at.checked_to_offset(UtcOffset::UTC).ok_or(InvalidTime)?;
    if (0..=9999).contains(&at.year()) {
        Ok(at)
    } else {
        Err(InvalidTime)
    }
}

/// Writes a time in UTC with microseconds.
pub fn format(at: OffsetDateTime) -> String {
    at.to_offset(UtcOffset::UTC)
        .format(OUT)
        .expect("every component of the format exists in every time")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<&str>) {
        assert_eq!(parse(text).ok().map(format).as_deref(), expect, "{text:?}");
    }

    #[test]
    fn times_are_read_strictly_and_answered_in_utc_with_microseconds() {
        check("2026-11-29T08:00:00Z", Some("2026-11-29T08:00:00.000000Z"));
        check(
            "2026-11-29T08:00:00.123456789Z",
            Some("2026-11-29T08:00:00.123456Z"),
        );
        check(
            "2026-11-29T08:00:00+02:00",
            Some("2026-11-29T06:00:00.000000Z"),
        );
        check(
            "2026-11-29T08:00:00.5-00:30",
            Some("2026-11-29T08:30:00.500000Z"),
        );
        check(
            "1970-01-01T00:00:00+00:00",
            Some("1970-01-01T00:00:00.000000Z"),
        );
        check("2100-01-01T00:00:00Z", Some("2100-01-01T00:00:00.000000Z"));
        check("2016-12-31T23:59:60Z", Some("2016-12-31T23:59:59.999999Z"));
        check("2026-11-29t08:00:00z", Some("2026-11-29T08:00:00.000000Z"));
        check("2026-11-29 08:00:00Z", Some("2026-11-29T08:00:00.000000Z"));
        check(
            "2026-11-29T08:00:00-00:00",
            Some("2026-11-29T08:00:00.000000Z"),
        );
        check("2026-11-29T08:00:00", None);
        check("2026-11-29", None);
        check("1764403200", None);
        check("2026-02-30T08:00:00Z", None);
        check("2026-11-29T25:00:00Z", None);
        check("0000-01-01T00:00:00+01:00", None);
        check("9999-12-31T23:59:59-01:00", None);
        check("", None);
    }

    #[test]
    fn nothing_but_a_t_or_one_space_stands_between_date_and_time() {
        for separator in 0..=u8::MAX {
            let text = format!("2026-11-29{}08:00:00Z", char::from(separator));
            let expect = b"Tt "
                .contains(&separator)
                .then_some("2026-11-29T08:00:00.000000Z");
            check(&text, expect);
        }
        check("2026-11-29  08:00:00Z", None);
        check("2026-11-29T 08:00:00Z", None);
        check("2026-11-2908:00:00Z", None);
    }

    #[test]
    fn the_rest_of_the_grammar_is_followed_to_the_letter() {
        for text in [
            " 2026-11-29T08:00:00Z",
            "2026-11-29T08:00:00Z ",
            "2026-11-29T08:00:00 Z",
            "2026-11-29T08:00:00 01:00",
            "2026-11-29T08:00:00+0100",
            "2026-11-29T08:00:00+01",
            "2026-11-29T08:00:00+24:00",
            "2026-11-29T08:00:00+01:60",
            "2026-11-29T08:00:00.Z",
            "2026-11-29T08:00:00,5Z",
            "2026-11-29T08:00Z",
            "2026-11-29T8:00:00Z",
            "2026-11-29T24:00:00Z",
            "+2026-11-29T08:00:00Z",
            "20261129T080000Z",
            "2026-11-29T08:00:60Z",
            "2026-11-29T08:00:00\u{2212}01:00",
        ] {
            check(text, None);
        }
    }
}
