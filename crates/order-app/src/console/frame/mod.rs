//! What surrounds every page: who is looking, the layout, forms and files.

pub(super) mod assets;
pub(super) mod banner;
pub(super) mod form;
pub(super) mod guard;
pub(super) mod pairs;
pub(super) mod problem;
pub(super) mod visitor;

use askama::Template;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use crate::http::answer::error::{ApiError, ErrorId};
use crate::telemetry::chain;
use crate::tokens::Scope;
use assets::Asset;
use banner::Banner;
use visitor::Visitor;

/// Keeps htmx from writing an address that only takes forms into the history.
const PUSH_URL: HeaderName = HeaderName::from_static("hx-push-url");

/// The part of the console that a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Overview,
    Exceptions,
    /// A page that the navigation doesn't list.
    Elsewhere,
}

/// The layout around a page.
pub(super) struct Frame {
    pub(super) title: String,
    tab: Tab,
    pub(super) visitor: Visitor,
    /// What became of the last command.
    pub(super) banner: Option<Banner>,
}

impl Frame {
    pub(super) fn new(title: impl Into<String>, tab: Tab, visitor: &Visitor) -> Self {
        Self {
            title: title.into(),
            tab,
            visitor: visitor.clone(),
            banner: None,
        }
    }

    /// With what became of a command.
    #[must_use]
    pub(super) fn saying(mut self, banner: Option<Banner>) -> Self {
        self.banner = banner;
        self
    }

    /// `aria-current` of a link in the navigation.
    pub(super) fn current(&self, tab: Tab) -> &'static str {
        if self.tab == tab { "page" } else { "false" }
    }

    /// The anti-forgery token of every form.
    pub(super) fn form(&self) -> &str {
        self.visitor.form_token()
    }

    pub(super) fn can_operate(&self) -> bool {
        self.visitor.can(Scope::Ops)
    }

    /// The address of a file, which changes with its content.
    #[expect(clippy::unused_self, reason = "templates call methods only")]
    pub(super) fn file(&self, name: &str) -> String {
        Asset::named(name).map_or_else(String::new, Asset::address)
    }
}

/// A page as an answer.
pub(super) fn page(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(html) => {
            let html_type = HeaderValue::from_static("text/html; charset=utf-8");
            (status, [(header::CONTENT_TYPE, html_type)], html).into_response()
        }
        Err(error) => {
            let id = ErrorId::random();
            tracing::error!(error.id = %id, error = %chain(&error), "page not rendered");
            ApiError::Internal(id).into_response()
        }
    }
}

/// A page that answers a form in place, under the form's own address.
pub(super) fn page_in_place(status: StatusCode, template: &impl Template) -> Response {
    let mut response = page(status, template);
    let no = HeaderValue::from_static("false");
    response.headers_mut().insert(PUSH_URL, no);
    response
}
