//! The pages to browse the API with. They come out of the binary and ask nobody else for anything.

use axum::Router;
use utoipa_swagger_ui::{Config, SwaggerUi};

/// Where the pages are.
pub(crate) const PATH: &str = "/docs";

/// The pages. They are no operations of the API, so its document doesn't list them.
pub(crate) fn pages() -> Router {
    // Otherwise the page sends the document's address to a validator on the internet.
    let config = Config::from(super::openapi::PATH).validator_url("none");
    SwaggerUi::new(PATH).config(config).into()
}
