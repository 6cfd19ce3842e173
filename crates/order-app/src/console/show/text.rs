//! Text that others wrote: escaped, bounded, and kept from changing the direction of what is around
//! it.

use std::fmt;

use askama::filters::HtmlSafe;

/// Characters of a text within a line.
const LINE_CHARS_MAX: usize = 200;
/// Characters of a text of its own.
const BLOCK_CHARS_MAX: usize = 4000;

/// A text, as HTML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    shown: String,
    /// How many characters are left out.
    left_out: usize,
}

impl Text {
    /// A text within a line.
    pub(crate) fn line(text: &str) -> Self {
        Self::bounded(text, LINE_CHARS_MAX)
    }

    /// A text of its own: a reason, a note, a detail.
    pub(crate) fn block(text: &str) -> Self {
        Self::bounded(text, BLOCK_CHARS_MAX)
    }

    pub(crate) fn bounded(text: &str, chars_max: usize) -> Self {
        let end = text.char_indices().nth(chars_max).map(|(at, _)| at);
        let (shown, rest) = text.split_at(end.unwrap_or(text.len()));
        Self {
            shown: shown.to_owned(),
            left_out: rest.chars().count(),
        }
    }
}

impl HtmlSafe for Text {}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<bdi>{}</bdi>", Escaped(&self.shown))?;
        match self.left_out {
            0 => Ok(()),
            count => write!(
                f,
                "<span class=\"left-out\">… {count} more characters</span>"
            ),
        }
    }
}

/// Text as HTML. Characters that would be invisible, or change the direction of others, are named.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl HtmlSafe for Escaped<'_> {}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        for char in self.0.chars() {
            match char {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(char)?,
                _ if is_hidden(char) => {
                    write!(f, "<span class=\"mark\">U+{:04X}</span>", u32::from(char))?;
                }
                _ => f.write_char(char)?,
            }
        }
        Ok(())
    }
}

fn is_hidden(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{061c}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_bounded_and_isolated() {
        for (text, expect) in [
            ("plain", "<bdi>plain</bdi>"),
            (
                "<script>alert('1')</script>&\"",
                "<bdi>&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&quot;</bdi>",
            ),
            (
                "a\u{202e}b",
                "<bdi>a<span class=\"mark\">U+202E</span>b</bdi>",
            ),
            (
                "a\u{0}\nb",
                "<bdi>a<span class=\"mark\">U+0000</span>\nb</bdi>",
            ),
            ("שלום", "<bdi>שלום</bdi>"),
        ] {
            assert_eq!(Text::line(text).to_string(), expect);
        }
        let long = Text::line(&"é".repeat(65_536)).to_string();
        assert!(long.ends_with("… 65336 more characters</span>"), "{long}");
        assert!(long.len() < 600, "{long}");
    }
}
