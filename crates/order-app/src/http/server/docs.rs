//! The pages of the API documentation. They are part of the binary and load nothing from elsewhere.

use axum::Router;
use utoipa_swagger_ui::{Config, SwaggerUi};

/// Where the pages are.
pub(crate) const PATH: &str = "/docs";

/// The pages. They aren't operations of the API, so the OpenAPI document doesn't list them.
pub(crate) fn pages() -> Router {
    // Otherwise the page sends the document's address to a validator on the internet.
    let config = Config::from(crate::http::document::openapi::PATH).validator_url("none");
    SwaggerUi::new(PATH).config(config).into()
}
