//! Lower-case hex, and ids that nobody else has.

use std::fmt::Write as _;

/// Bytes in lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// An id that nobody else has: 128 random bits.
pub(crate) fn random_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}
