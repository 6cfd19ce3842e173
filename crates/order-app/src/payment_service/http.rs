//! Questions over HTTP: `POST <url>`. Only 200 is read, redirects are not followed.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Client, StatusCode, Url, redirect};

use super::{AskError, REPLY_MAX, REPLY_TIMEOUT, Reaction};
use crate::clock;

/// The HTTP side of the payment service.
#[derive(Debug, Clone)]
pub(super) struct Posts {
    client: Client,
    url: Url,
}

impl Posts {
    pub(super) fn new(url: Url) -> Result<Self, reqwest::Error> {
        let client = Client::builder()
            .redirect(redirect::Policy::none())
            .timeout(REPLY_TIMEOUT)
            .connect_timeout(REPLY_TIMEOUT)
            .user_agent(concat!("orderd/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { client, url })
    }

    pub(super) async fn send(&self, question: Vec<u8>) -> Result<Reaction, AskError> {
        let asked = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(question)
            .send();
        let mut response = asked.await.map_err(unreachable)?;
        let status = response.status();
        if status == StatusCode::OK {
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
                body.extend_from_slice(&chunk);
                if body.len() > REPLY_MAX {
                    return Err(AskError::TooLarge);
                }
            }
            return Ok(Reaction::Reply(body));
        }
        let pause = retry_after(response.headers());
        if status == StatusCode::TOO_MANY_REQUESTS || pause.is_some() {
            return Ok(Reaction::NotNow(pause));
        }
        Err(AskError::Status(status.to_string()))
    }
}

/// Without the URL: it may hold a password.
fn unreachable(error: reqwest::Error) -> AskError {
    if error.is_timeout() {
        AskError::Timeout
    } else {
        AskError::Unreachable(Box::new(error.without_url()))
    }
}

/// Seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    // A date on the service's clock, measured on ours: the header has no better.
    let now = std::time::SystemTime::from(clock::now());
    Some(at.duration_since(now).unwrap_or(Duration::ZERO))
}
