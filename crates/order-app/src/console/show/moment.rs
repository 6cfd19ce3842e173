//! Times: in UTC, with what a script needs to add the reader's own time.

use std::fmt;

use askama::filters::HtmlSafe;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, UtcOffset};

use crate::time_format;

const SHOWN: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");

/// A time, as HTML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) OffsetDateTime);

impl HtmlSafe for Moment {}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = time_format::format(self.0);
        let shown = self.0.to_offset(UtcOffset::UTC).format(SHOWN);
        let shown = shown.unwrap_or_else(|_| exact.clone());
        write!(
            f,
            "<time datetime=\"{exact}\" title=\"{exact}\"><span class=\"utc\">{shown} UTC</span></time>"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_in_utc() {
        let at = time::macros::datetime!(2026-11-29 10:00:00.5 +02:00);
        assert_eq!(
            Moment(at).to_string(),
            "<time datetime=\"2026-11-29T08:00:00.500000Z\" title=\"2026-11-29T08:00:00.500000Z\">\
             <span class=\"utc\">2026-11-29 08:00:00 UTC</span></time>"
        );
    }
}
