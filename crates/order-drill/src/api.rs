//! The service over HTTP, as a patient client: what a restart or load refuses is asked again until the deadline.

use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::view::Page;
use crate::{Difference, Error, RunOptions};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A list that needs more pages than this never ends.
const PAGES_MAX: usize = 1_000_000;

/// A client of the service, with a bound on requests under way.
#[derive(Debug)]
pub struct Api {
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
    /// The body for a person, cut to a line.
    pub(crate) fn excerpt(&self) -> String {
        let text: String = String::from_utf8_lossy(&self.body)
            .chars()
            .take(200)
            .collect();
        format!("{} {text}", self.status)
    }
}

/// Chooses who does TLS in this process, before the first HTTP client is made; a choice that was
/// made before stays.
pub fn choose_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

impl Api {
    /// A client for the options' service.
    pub fn new(options: &RunOptions) -> Result<Self, Error> {
        choose_tls();
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(REQUEST_TIMEOUT)
            .pool_max_idle_per_host(options.http_in_flight)
            .build()
            .map_err(Error::HttpClient)?;
        Ok(Self {
            http,
            base: options.http.trim_end_matches('/').to_owned(),
            token: options.token.clone(),
            gate: Semaphore::new(options.http_in_flight.max(1)),
        })
    }

    /// Waits until the service answers, and makes sure that it lets us look.
    pub(crate) async fn reach(&self, patience: Duration) -> Result<(), Error> {
        let path = "/v1/orders?limit=1";
        let begun = Instant::now();
        loop {
            let source = match self.once("GET", path, None).await {
                Ok(Answer {
                    status: status @ (401 | 403),
                    ..
                }) => {
                    return Err(Error::Forbidden {
                        url: format!("{}{path}", self.base),
                        status,
                    });
                }
                Ok(answer) if !is_for_later(answer.status) => return Ok(()),
                Ok(_) => None,
                Err(source) => Some(source),
            };
            if begun.elapsed() >= patience {
                let url = self.base.clone();
                return Err(Error::Unreachable {
                    url,
                    waited: patience,
                    source,
                });
            }
            sleep(PAUSE_FIRST * 2).await;
        }
    }

    /// Asks until there is a final answer.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None).await
    }

    /// Posts until there is a final answer; only for what may be posted twice.
    pub(crate) async fn post(&self, path: &str, body: String) -> Answer {
        self.ask("POST", path, Some(body)).await
    }

    /// A resource, or nothing if it doesn't exist; any other answer is a difference.
    pub(crate) async fn resource<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Option<T>, Difference> {
        let answer = self.get(path).await;
        match answer.status {
            404 => Ok(None),
            200 => serde_json::from_slice(&answer.body)
                .map(Some)
                .map_err(|cause| {
                    let found = format!("{} ({cause})", answer.excerpt());
                    Difference::new(format!("GET {path}"), "a body as in the contract", found)
                }),
            _ => Err(Difference::new(
                format!("GET {path}"),
                "200 or 404",
                answer.excerpt(),
            )),
        }
    }

    /// All items of a list, page after page; nothing if the list doesn't exist.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        limit: u8,
    ) -> Result<Option<Vec<T>>, Difference> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let first = format!("{path}{separator}limit={limit}");
        let Some(mut page) = self.resource::<Page<T>>(&first).await? else {
            return Ok(None);
        };
        let mut items = std::mem::take(&mut page.items);
        for _ in 0..PAGES_MAX {
            let Some(cursor) = page.next_cursor.take() else {
                return Ok(Some(items));
            };
            let next = format!("{first}&cursor={}", percent_encoded(&cursor));
            page = self
                .resource(&next)
                .await?
                .ok_or_else(|| Difference::new(format!("GET {next}"), "the next page", "404"))?;
            if page.next_cursor.as_ref() == Some(&cursor) {
                return Err(Difference::new(
                    format!("GET {next}"),
                    "another cursor",
                    "the same",
                ));
            }
            items.append(&mut page.items);
        }
        Err(Difference::new(
            format!("GET {first}"),
            "a last page",
            "none",
        ))
    }

    async fn ask(&self, method: &str, path: &str, body: Option<String>) -> Answer {
        let mut pause = PAUSE_FIRST;
        loop {
            let permit = self.gate.acquire().await;
            if let Ok(answer) = self.once(method, path, body.clone()).await
                && !is_for_later(answer.status)
            {
                return answer;
            }
            drop(permit);
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn once(
        &self,
        method: &str,
        path: &str,
        body: Option<String>,
    ) -> Result<Answer, reqwest::Error> {
        let url = format!("{}{path}", self.base);
        let mut request = if method == "POST" {
            self.http.post(url)
        } else {
            self.http.get(url)
        };
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body);
        }
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
}

fn is_for_later(status: u16) -> bool {
    status == 429 || status == 503
}

fn percent_encoded(text: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::percent_encoded;

    #[test]
    fn a_cursor_survives_the_query_string() {
        assert_eq!(percent_encoded("aZ0-._~"), "aZ0-._~");
        assert_eq!(percent_encoded("a+b/c=="), "a%2Bb%2Fc%3D%3D");
        assert_eq!(percent_encoded("é&"), "%C3%A9%26");
    }
}
