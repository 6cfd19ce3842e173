//! Digests that name things by their content.

use sha2::{Digest as _, Sha256};

/// The SHA-256 of parts in hex; no part contains the separator.
pub(crate) fn digest(parts: &[&str]) -> String {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update(part.as_bytes());
        sha.update(b"\n");
    }
    hex::encode(sha.finalize())
}
