//! The files that pages load. They are part of the binary; no page loads anything else.

use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};

use crate::http::answer::error::ApiError;

/// A file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asset {
    name: &'static str,
    content_type: &'static str,
    content: &'static [u8],
}

/// Every file.
const ASSETS: [Asset; 4] = [
    Asset {
        name: "console.css",
        content_type: "text/css; charset=utf-8",
        content: include_bytes!("console.css"),
    },
    Asset {
        name: "console.js",
        content_type: "text/javascript; charset=utf-8",
        content: include_bytes!("console.js"),
    },
    Asset {
        name: "htmx.js",
        content_type: "text/javascript; charset=utf-8",
        content: include_bytes!("htmx/htmx.min.js"),
    },
    Asset {
        name: "icon.svg",
        content_type: "image/svg+xml",
        content: include_bytes!("icon.svg"),
    },
];

impl Asset {
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        ASSETS.iter().find(|asset| asset.name == name)
    }

    /// Changes with the content, so that browsers may keep the file for as long as they like.
    pub(super) fn address(&self) -> String {
        let digest = hex::encode(&Sha256::digest(self.content)[..6]);
        format!("/console/files/{}?v={digest}", self.name)
    }
}

/// Serves a file, to everyone: it is in the source as well.
pub(crate) async fn file(Path(name): Path<String>) -> Result<Response, ApiError> {
    let asset = Asset::named(&name).ok_or(ApiError::NoSuchPath)?;
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static(asset.content_type),
        ),
        (
            header::CACHE_CONTROL,
            HeaderValue::from_static("public, max-age=31536000, immutable"),
        ),
    ];
    Ok((headers, asset.content).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn htmx_is_the_file_that_was_published() {
        // htmx.org 4.0.1, dist/htmx.min.js.
        let published = "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130";
        let own = Asset::named("htmx.js").unwrap().content;
        assert_eq!(hex::encode(Sha256::digest(own)), published);
    }
}
