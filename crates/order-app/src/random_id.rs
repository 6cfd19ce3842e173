//! Unique ids.

/// 128 random bits, in lower-case hex.
pub(crate) fn random_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}
