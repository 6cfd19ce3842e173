//! Pages for people, beside the API: which paths they have, and what every answer to them says.

use axum::Router;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;

use crate::http::Shared;
use crate::http::answer::problem::Problem;

/// Where the pages are.
pub(crate) const PATH: &str = "/console";

/// The largest form: a body of 64 KiB, percent-encoded.
pub(crate) const FORM_BYTES_MAX: usize = 256 * 1024;

/// Pages that are served beside the API.
pub(crate) struct Pages {
    /// Their routes.
    pub(crate) router: Router<Shared>,
    /// Shows a problem as a page.
    pub(crate) show: ShowProblem,
}

/// Shows a problem as a page.
pub(crate) type ShowProblem = fn(&Problem) -> Response;

/// Whether a path belongs to the pages.
pub(crate) fn is_page(path: &str) -> bool {
    path == "/"
        || path
            .strip_prefix(PATH)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Nothing on a page runs or loads but files of this service, and no page is shown inside of another
/// one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// Adds what browsers have to know about every page.
pub(crate) fn add_headers(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        // Other sites get no referrer. With `no-referrer`, browsers would send forms with the
        // `Origin` null.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
