//! Questions over HTTP: `POST <url>`. Only 200 is read, redirects are not followed.

use std::error::Error;
use std::io;

use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url, redirect};

use super::{AskError, REPLY_MAX, REPLY_TIMEOUT, Reaction, retry_after};
use crate::loopback::is_loopback;

/// The HTTP side of the payment service.
#[derive(Debug, Clone)]
pub(super) struct Posts {
    client: Client,
    url: Url,
}

impl Posts {
    pub(super) fn new(url: Url) -> Result<Self, reqwest::Error> {
        let client = Client::builder();
        // A proxy from the environment would connect to its own loopback address.
        let client = match url.host_str() {
            Some(host) if is_loopback(host) => client.no_proxy(),
            _ => client,
        };
        let client = client
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
        let mut response = asked.await.map_err(|error| {
            if was_closed(&error) {
                AskError::HungUp(Box::new(error.without_url()))
            } else {
                unreachable(error)
            }
        })?;
        let status = response.status();
        let named = response.headers().get(RETRY_AFTER);
        let pause = named.and_then(|value| retry_after(value.to_str().ok()?));
        if status == StatusCode::OK {
            let body = body(&mut response).await;
            return Ok(Reaction::Reply { body, pause });
        }
        if status == StatusCode::TOO_MANY_REQUESTS || pause.is_some() {
            return Ok(Reaction::NotNow(pause));
        }
        Err(AskError::Status(status.to_string()))
    }
}

async fn body(response: &mut Response) -> Result<Vec<u8>, AskError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        body.extend_from_slice(&chunk);
        if body.len() > REPLY_MAX {
            return Err(AskError::TooLarge);
        }
    }
    Ok(body)
}

/// Drops the URL, which may contain a password.
fn unreachable(error: reqwest::Error) -> AskError {
    if error.is_timeout() {
        AskError::Timeout
    } else {
        AskError::Unreachable(Box::new(error.without_url()))
    }
}

/// Whether an established connection was closed before an answer began, such as a kept-alive
/// connection that the server had just given up.
fn was_closed(error: &reqwest::Error) -> bool {
    if error.is_connect() || error.is_timeout() {
        return false;
    }
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<hyper::Error>()
            && (error.is_incomplete_message() || error.is_canceled() || error.is_closed())
        {
            return true;
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof
            );
        }
        cause = error.source();
    }
    false
}
