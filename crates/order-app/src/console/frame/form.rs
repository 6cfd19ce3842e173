//! Forms that were sent, and addresses with a query.

use std::convert::Infallible;

use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header;
use axum::http::request::Parts;

use super::pairs::Pairs;
use super::visitor::Visitor;
use crate::http::answer::error::ApiError;
use crate::http::request::values;
use crate::http::server::page::FORM_BYTES_MAX;

/// The fields of a form that this service made for this browser.
#[derive(Debug)]
pub(crate) struct Form(pub(crate) Pairs);

impl Form {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)
    }

    /// A reason or note, which must be given.
    pub(crate) fn note(&self, name: &'static str) -> Result<String, ApiError> {
        let text = self.get(name).map(str::trim).unwrap_or_default();
        values::checked_reason(text.to_owned()).map_err(|why| ApiError::invalid(name, why))
    }
}

impl<S: Sync> FromRequest<S> for Form {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let content_type = request.headers().get(header::CONTENT_TYPE);
        let is_form = content_type.is_some_and(|value| {
            value
                .as_bytes()
                .starts_with(b"application/x-www-form-urlencoded")
        });
        if !is_form {
            return Err(ApiError::UnsupportedMediaType(
                "the Content-Type must be application/x-www-form-urlencoded",
            ));
        }
        let visitor = request.extensions().get::<Visitor>().cloned();
        // `carry_out` has read it, within its limits.
        let body = to_bytes(request.into_body(), FORM_BYTES_MAX).await;
        let body = body.map_err(|_| ApiError::PayloadTooLarge)?;
        let fields = Pairs::parse(&body);
        let given = fields.get("form").unwrap_or_default();
        if !visitor.is_some_and(|visitor| visitor.made(given)) {
            return Err(ApiError::ForeignPage(
                "the form is not from this page, or you signed in or out since it was loaded; load \
                 the page again"
                    .to_owned(),
            ));
        }
        Ok(Self(fields))
    }
}

/// The query of a page. What it doesn't know is ignored: it is typed by people.
#[derive(Debug)]
pub(crate) struct PageQuery(pub(crate) Pairs);

impl PageQuery {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)
    }
}

impl<S: Sync> FromRequestParts<S> for PageQuery {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self(Pairs::parse(query.as_bytes())))
    }
}
