//! A browser without scripts: it keeps cookies, and submits the forms of the page it shows.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Mutex;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::console::pages;
use crate::http::router_with;
use crate::http::tests::app::{Answer, TestApp, send};
use crate::tokens::{NewToken, Scope, Tokens, issue};

/// The address of the service.
pub(super) const HOST: &str = "localhost:8080";

/// A service with pages.
pub(super) struct Console {
    pub(super) app: TestApp,
    pub(super) router: Router,
    pub(super) tokens: Option<Tokens>,
    folder: PathBuf,
}

impl Drop for Console {
    fn drop(&mut self) {
        // Left behind at worst, in a folder for such things.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Console {
    /// Without tokens.
    pub(super) async fn open() -> Self {
        Self::of(TestApp::start().await)
    }

    pub(super) fn of(app: TestApp) -> Self {
        let folder = std::env::temp_dir().join(order_testkit::unique_name("orderd_console"));
        std::fs::create_dir(&folder).unwrap();
        let router = router_with(app.state.clone(), Some(pages()));
        Self {
            app,
            router,
            tokens: None,
            folder,
        }
    }

    /// With a tokens file, which is empty at first.
    pub(super) async fn with_tokens(rate_limit: Option<u32>) -> Self {
        let mut console = Self::open().await;
        std::fs::write(console.tokens_file(), "").unwrap();
        let tokens = Tokens::load(&console.tokens_file()).unwrap();
        let state = console.app.state.clone();
        let state = state
            .with_tokens(Some(tokens.clone()))
            .with_rate_limit(rate_limit.and_then(NonZeroU32::new));
        console.router = router_with(state, Some(pages()));
        console.tokens = Some(tokens);
        console
    }

    pub(super) fn tokens_file(&self) -> PathBuf {
        self.folder.join("tokens")
    }

    /// Adds a token and returns its secret.
    pub(super) fn issue(&self, name: &str, scopes: &[Scope]) -> String {
        let new = NewToken {
            name: name.parse().unwrap(),
            scopes: scopes.to_vec(),
            expires: None,
        };
        let mut secret = String::new();
        issue(&self.tokens_file(), &new, |made| {
            secret.push_str(made);
            Ok(())
        })
        .unwrap();
        self.read_tokens();
        secret
    }

    /// Reads the file again, as the running service does twice a second.
    pub(super) fn read_tokens(&self) {
        self.tokens.as_ref().unwrap().read_again();
    }

    pub(super) fn browser(&self) -> Browser {
        Browser {
            router: self.router.clone(),
            host: HOST.to_owned(),
            cookies: Mutex::default(),
            form: Mutex::default(),
        }
    }

    /// A browser that signed in with a new token.
    pub(super) async fn signed_in(&self, name: &str, scopes: &[Scope]) -> Browser {
        let secret = self.issue(name, scopes);
        let browser = self.browser();
        let answer = browser.sign_in(&secret).await;
        assert_eq!(answer.status, 303, "{answer}");
        browser
    }
}

pub(super) struct Browser {
    router: Router,
    pub(super) host: String,
    pub(super) cookies: Mutex<BTreeMap<String, String>>,
    /// The anti-forgery token of the page that was loaded last.
    pub(super) form: Mutex<String>,
}

impl Browser {
    pub(super) async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap())
            .await
    }

    /// Loads a page that must be there.
    pub(super) async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {answer}");
        answer.text().to_owned()
    }

    /// Sends a form of the page that was loaded last.
    pub(super) async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let form = self.form.lock().unwrap().clone();
        self.submit_as(&form, path, fields).await
    }

    pub(super) async fn submit_as(
        &self,
        form: &str,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Answer {
        let pairs = [("form", form)].into_iter().chain(fields.iter().copied());
        let pairs = pairs.map(|(name, value)| {
            let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
            format!("{name}={value}")
        });
        let body = pairs.collect::<Vec<_>>().join("&");
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ORIGIN, format!("http://{}", self.host))
            .header("sec-fetch-site", "same-origin");
        self.send(request.body(Body::from(body)).unwrap()).await
    }

    pub(super) async fn sign_in(&self, secret: &str) -> Answer {
        self.page("/console/sign-in").await;
        self.submit("/console/sign-in", &[("token", secret)]).await
    }

    pub(super) async fn send(&self, mut request: Request<Body>) -> Answer {
        let cookies: Vec<String> = {
            let cookies = self.cookies.lock().unwrap();
            let pairs = cookies.iter();
            pairs
                .map(|(name, value)| format!("{name}={value}"))
                .collect()
        };
        let headers = request.headers_mut();
        if !cookies.is_empty() {
            headers.insert(header::COOKIE, cookies.join("; ").parse().unwrap());
        }
        let host = self.host.parse().unwrap();
        headers.entry(header::HOST).or_insert(host);
        let answer = send(&self.router, request).await;
        for set in answer.headers.get_all(header::SET_COOKIE) {
            let set = set.to_str().unwrap();
            let (name, rest) = set.split_once('=').unwrap();
            let value = rest.split(';').next().unwrap();
            let mut cookies = self.cookies.lock().unwrap();
            if set.contains("Max-Age=0") {
                cookies.remove(name);
            } else {
                cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        let html = String::from_utf8_lossy(&answer.body);
        if let Some((_, rest)) = html.split_once("name=\"form\" value=\"") {
            rest.split('"')
                .next()
                .unwrap()
                .clone_into(&mut self.form.lock().unwrap());
        }
        answer
    }
}
