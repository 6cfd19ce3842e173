//! Names with values, as forms and addresses contain them (`application/x-www-form-urlencoded`).

use percent_encoding::percent_decode;

/// The most pairs that are read.
const PAIRS_MAX: usize = 500;

/// The pairs, in the order in which they were sent.
#[derive(Debug, Default)]
pub(crate) struct Pairs(Vec<(String, String)>);

impl Pairs {
    /// Reads any text; what isn't UTF-8 is replaced.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let parts = text.split(|byte| *byte == b'&');
        let pairs = parts.filter(|part| !part.is_empty()).take(PAIRS_MAX);
        Self(
            pairs
                .map(|pair| {
                    let equals = pair.iter().position(|byte| *byte == b'=');
                    let (name, value) = pair.split_at(equals.unwrap_or(pair.len()));
                    (decode(name), decode(value.get(1..).unwrap_or_default()))
                })
                .collect(),
        )
    }

    /// The first value of a name, unless it is empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).find(|value| !value.is_empty())
    }

    /// All values of a name.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let pairs = self.0.iter().filter(move |(given, _)| given == name);
        pairs.map(|(_, value)| value.as_str())
    }
}

fn decode(text: &[u8]) -> String {
    let spaced: Vec<u8> = text
        .iter()
        .map(|byte| if *byte == b'+' { b' ' } else { *byte })
        .collect();
    let text = percent_decode(&spaced).decode_utf8_lossy();
    // Browsers send line ends as CR and LF.
    text.replace("\r\n", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_read() {
        let pairs = Pairs::parse(b"a=1&b=x+y%26z&b=&&c&=d&e=%ff&f=1%0D%0A2&a=2");
        assert_eq!(pairs.get("a"), Some("1"));
        assert_eq!(pairs.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(pairs.get("b"), Some("x y&z"));
        assert_eq!(pairs.get("c"), None);
        assert_eq!(pairs.get(""), Some("d"));
        assert_eq!(pairs.get("e"), Some("\u{fffd}"));
        assert_eq!(pairs.get("f"), Some("1\n2"));
        assert_eq!(pairs.get("g"), None);
    }
}
