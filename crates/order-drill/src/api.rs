//! The service over HTTP, as a patient client: a request that a restart or load refuses is repeated until the deadline.

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{RequestBuilder, redirect};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::view::Page;
use crate::{Difference, Error, RunOptions};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A list with more pages never ends.
const PAGES_MAX: usize = 1_000_000;

/// The usual size of a page.
pub(crate) const PAGE: u8 = 200;
/// So small that cursors are followed. Only for a few lists: it costs a request per page.
pub(crate) const PAGE_SMALL: u8 = 2;

/// A client of the service, with a limit of requests in flight.
#[derive(Debug)]
pub(crate) struct Api {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
    gate: Semaphore,
}

/// A final answer: neither "come back later" nor silence.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) location: Option<String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The status and the start of the body, for a person.
    pub(crate) fn excerpt(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let text: String = text.chars().take(200).collect();
        format!("{} {text}", self.status)
    }

    /// An error about an answer that the drill can't use.
    pub(crate) fn unusable(&self, request: &str) -> Error {
        let excerpt = self.excerpt();
        Error::new(format!("{request} answered {excerpt} (is it orderd?)"))
    }
}

/// Chooses the TLS implementation of this process, before the first HTTP client is made; an earlier choice stays.
pub fn choose_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

impl Api {
    /// A client for the options' service.
    pub(crate) fn new(options: &RunOptions) -> Result<Self, Error> {
        choose_tls();
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .timeout(REQUEST_TIMEOUT)
            .pool_max_idle_per_host(options.http_in_flight)
            .build()
            .map_err(Error::because("cannot build the HTTP client"))?;
        Ok(Self {
            http,
            base: options.http.trim_end_matches('/').to_owned(),
            token: options.token.clone(),
            gate: Semaphore::new(options.http_in_flight.max(1)),
        })
    }

    /// Waits until the service answers, and checks that the token is sufficient.
    pub(crate) async fn reach(&self, patience: Duration) -> Result<(), Error> {
        let path = "/v1/orders?limit=1";
        let begun = Instant::now();
        loop {
            let fault: Box<dyn std::error::Error + Send + Sync> = match once(
                self.request(self.http.get(self.url(path))),
            )
            .await
            {
                Ok(Answer {
                    status: status @ (401 | 403),
                    ..
                }) => {
                    return Err(Error::new(format!(
                        "{} answered {status}; give --token a token with the scopes of what is looked at",
                        self.url(path)
                    )));
                }
                Ok(answer) if !is_for_later(answer.status) => return Ok(()),
                Ok(answer) => answer.excerpt().into(),
                Err(fault) => fault.into(),
            };
            if begun.elapsed() >= patience {
                return Err(unreachable(&self.base, patience)(fault));
            }
            sleep(PAUSE_FIRST * 2).await;
        }
    }

    /// Asks until there is a final answer.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(self.http.get(self.url(path))).await
    }

    /// Posts until there is a final answer; only for what may be posted twice.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(self.http.post(self.url(path)).json(body)).await
    }

    /// A resource, or `None` if it doesn't exist; any other answer is a difference.
    pub(crate) async fn resource<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Option<T>, Difference> {
        let answer = self.get(path).await;
        let differs = |expected: &str, found: String| {
            Err(Difference::new(format!("GET {path}"), expected, found))
        };
        match answer.status {
            404 => Ok(None),
            200 => serde_json::from_slice(&answer.body)
                .map(Some)
                .or_else(|cause| {
                    let found = format!("{} ({cause})", answer.excerpt());
                    differs("a body as in the contract", found)
                }),
            _ => differs("200 or 404", answer.excerpt()),
        }
    }

    /// All items of a list, page after page; `None` if the list doesn't exist.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        limit: u8,
    ) -> Result<Option<Vec<T>>, Difference> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let first = format!("{path}{separator}limit={limit}");
        let differs = |path: &str, expected: &str, found: &str| {
            Err(Difference::new(format!("GET {path}"), expected, found))
        };
        let Some(mut page) = self.resource::<Page<T>>(&first).await? else {
            return Ok(None);
        };
        let mut items = std::mem::take(&mut page.items);
        for _ in 0..PAGES_MAX {
            let Some(cursor) = page.next_cursor.take() else {
                return Ok(Some(items));
            };
            let next = next_page(&first, &cursor);
            match self.resource(&next).await? {
                Some(next_page) => page = next_page,
                None => return differs(&next, "the next page", "404"),
            }
            if page.next_cursor.as_ref() == Some(&cursor) {
                return differs(&next, "another cursor", "the same");
            }
            items.append(&mut page.items);
        }
        differs(&first, "a last page", "none")
    }

    async fn ask(&self, request: RequestBuilder) -> Answer {
        let request = self.request(request);
        let mut pause = PAUSE_FIRST;
        loop {
            let again = request.try_clone().expect("the body is in memory");
            let permit = self.gate.acquire().await;
            if let Ok(answer) = once(again).await
                && !is_for_later(answer.status)
            {
                return answer;
            }
            drop(permit);
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn request(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}

/// An error about a service or broker that doesn't answer.
pub(crate) fn unreachable<E>(url: &str, waited: Duration) -> impl FnOnce(E) -> Error
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    Error::because(format!(
        "{url} did not answer within {waited:?} (is it running?)"
    ))
}

async fn once(request: RequestBuilder) -> Result<Answer, reqwest::Error> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    let location = response.headers().get("location");
    let location = location
        .and_then(|path| path.to_str().ok())
        .map(str::to_owned);
    Ok(Answer {
        status,
        location,
        body: response.bytes().await?.to_vec(),
    })
}

fn is_for_later(status: u16) -> bool {
    status == 429 || status == 503
}

fn next_page(first: &str, cursor: &str) -> String {
    let cursor = utf8_percent_encode(cursor, NON_ALPHANUMERIC);
    format!("{first}&cursor={cursor}")
}

#[cfg(test)]
mod tests {
    use super::next_page;

    #[test]
    fn a_cursor_survives_the_query_string() {
        let check = |cursor: &str, expect: &str| {
            assert_eq!(
                next_page("/v1?limit=2", cursor),
                format!("/v1?limit=2&cursor={expect}")
            );
        };
        check("aZ0", "aZ0");
        check("a+b/c==", "a%2Bb%2Fc%3D%3D");
        check("é&", "%C3%A9%26");
    }
}
