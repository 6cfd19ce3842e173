//! Protects a service without tokens from requests that browsers send for other sites.
//!
//! Such a service serves every program on its machine, browsers included, and a browser sends
//! requests for any page it shows: directly to `localhost`, or to a name of that site which
//! resolves to it (DNS rebinding). So without tokens a request must be addressed to this machine,
//! and a command must not come from another site's page. Programs that aren't browsers send neither
//! `Origin` nor `Sec-Fetch-Site`.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Version, header};

use crate::http::answer::error::ApiError;
use crate::loopback::is_loopback;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Characters of a header that an error repeats at most.
const SHOWN_CHARS_MAX: usize = 64;

/// Refuses requests that another site's page may have sent.
///
/// # Errors
/// [`ApiError::ForeignPage`], or [`ApiError::Invalid`] if the request has no valid host.
pub(super) fn check<B>(request: &Request<B>) -> Result<(), ApiError> {
    check_sender(request, addressee(request, own_authority)?.as_ref())
}

/// Refuses commands that another site's page may have sent to a page of this service, which may be
/// reached by any name.
///
/// # Errors
/// [`ApiError::ForeignPage`], or [`ApiError::Invalid`] if the request has no valid host.
pub(super) fn check_page<B>(request: &Request<B>) -> Result<(), ApiError> {
    check_sender(request, addressee(request, any_authority)?.as_ref())
}

/// Whether the request is addressed to a loopback name or address.
pub(crate) fn is_for_loopback(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    hosts.all(|host| own_authority(host).is_ok())
}

fn check_sender<B>(request: &Request<B>, own: Option<&Authority>) -> Result<(), ApiError> {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(());
    }
    let headers = request.headers();
    for origin in headers.get_all(header::ORIGIN) {
        let is_own = own
            .as_ref()
            .is_some_and(|own| origin.to_str().is_ok_and(|origin| own.is_origin(origin)));
        if !is_own {
            return Err(foreign("Origin", origin));
        }
    }
    for site in headers.get_all(SEC_FETCH_SITE) {
        if !matches!(site.as_bytes(), b"same-origin" | b"none") {
            return Err(foreign("Sec-Fetch-Site", site));
        }
    }
    Ok(())
}

/// Checks the host of a request, as `read` reads it. Only HTTP/1.0 may omit it.
fn addressee<B>(
    request: &Request<B>,
    read: fn(&HeaderValue) -> Result<Authority, ApiError>,
) -> Result<Option<Authority>, ApiError> {
    let hosts = || request.headers().get_all(header::HOST).iter();
    for host in hosts() {
        read(host)?;
    }
    // The host of an absolute target takes precedence over the header.
    if let Some(target) = request.uri().authority() {
        let without_user = target.as_str().rsplit('@').next().unwrap_or_default();
        let value = HeaderValue::from_str(without_user);
        let value = value.map_err(|_| ApiError::invalid("Host", "is not valid"))?;
        return read(&value).map(Some);
    }
    match hosts().count() {
        0 if request.version() < Version::HTTP_11 => Ok(None),
        0 => Err(ApiError::invalid("Host", "is missing")),
        1 => hosts().next().map(read).transpose(),
        _ => Err(ApiError::invalid("Host", "is given more than once")),
    }
}

fn any_authority(value: &HeaderValue) -> Result<Authority, ApiError> {
    let authority = value.to_str().ok().and_then(Authority::parse);
    authority.ok_or_else(|| ApiError::invalid("Host", "is not valid"))
}

fn own_authority(value: &HeaderValue) -> Result<Authority, ApiError> {
    let authority = value.to_str().ok().and_then(Authority::parse);
    let own = authority.filter(|authority| is_loopback(&authority.host));
    own.ok_or_else(|| {
        let host = shown(value);
        ApiError::ForeignPage(format!(
            "the Host {host} is not a loopback name or address; a service that is reached by another \
             name needs tokens (ORDERD_TOKENS_FILE)"
        ))
    })
}

fn foreign(name: &str, value: &HeaderValue) -> ApiError {
    let value = shown(value);
    ApiError::ForeignPage(format!(
        "the {name} {value} says that a page of another origin sent this command; a service that \
         takes such commands needs tokens (ORDERD_TOKENS_FILE), and a proxy in front of it has to \
         pass on the Host"
    ))
}

/// A value, shortened for an error.
fn shown(value: &HeaderValue) -> String {
    let text = String::from_utf8_lossy(value.as_bytes());
    format!(
        "{:?}",
        text.chars().take(SHOWN_CHARS_MAX).collect::<String>()
    )
}

/// A host and its port, as `Host` and origins have them.
#[derive(Debug, PartialEq, Eq)]
struct Authority {
    /// In lower case, with the brackets of an address.
    host: String,
    port: Option<u16>,
}

impl Authority {
    fn parse(text: &str) -> Option<Self> {
        let end = if text.starts_with('[') {
            text.find(']')? + 1
        } else {
            text.find(':').unwrap_or(text.len())
        };
        let (host, port) = text.split_at(end);
        if !(port.is_empty() || port.starts_with(':')) {
            return None;
        }
        let port = match port.strip_prefix(':') {
            None | Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            Some(_) => return None,
        };
        Some(Self {
            host: host.to_ascii_lowercase(),
            port,
        })
    }

    /// Whether an `Origin` is this service's own. The scheme doesn't matter: TLS may end in front
    /// of this service.
    fn is_origin(&self, origin: &str) -> bool {
        let (scheme, rest) = origin.split_once("://").unwrap_or_default();
        let port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return false,
        };
        Self::parse(rest).is_some_and(|theirs| {
            theirs.host == self.host && theirs.port.unwrap_or(port) == self.port.unwrap_or(port)
        })
    }
}
