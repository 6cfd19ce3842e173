//! The console: pages for people on duty, rendered here and contained in the binary.
//!
//! It shows what the API shows and moves orders by the same functions as the API's operations: it
//! has no rules of its own. Each page has a folder with its handler, its template and whatever else
//! it needs; `frame` is what surrounds every page (session, layout, forms, files), `show` is how
//! values are displayed. Every displayed value is escaped: askama does it for plain values, and the
//! types in `show` do it themselves.
//!
//! Enter at [`pages`], the list of routes.

mod exceptions;
mod frame;
mod overview;
mod show;
mod sign_in;
#[cfg(test)]
mod tests;

use axum::Router;
use axum::response::Redirect;
use axum::routing::{MethodRouter, get, post};

use crate::http::Shared;
use crate::http::server::page::{PATH, Pages};
use crate::tokens::Scope;
use frame::guard::{Need, guarded};
use frame::{assets, problem};

/// The pages, to be served beside the API.
pub(crate) fn pages() -> Pages {
    Pages {
        router: routes(),
        show: problem::show,
    }
}

/// Every page, with what its caller needs.
fn routes() -> Router<Shared> {
    let open = |page: MethodRouter<Shared>| guarded(Need::Nothing, page);
    let ops = |page: MethodRouter<Shared>| guarded(Need::Scope(Scope::Ops), page);
    Router::new()
        .route("/", get(async || Redirect::to(PATH)))
        .route(PATH, guarded(Need::AnyToken, get(overview::overview)))
        .route("/console/files/{name}", get(assets::file))
        .route(
            "/console/sign-in",
            open(get(sign_in::form).post(sign_in::sign_in)),
        )
        .route("/console/sign-out", open(post(sign_in::sign_out)))
        .route("/console/payment-exceptions", ops(get(exceptions::queue)))
        .route(
            "/console/payment-exceptions/close",
            ops(post(exceptions::close_many)),
        )
        .route(
            "/console/payment-exceptions/{id}",
            ops(get(exceptions::one)),
        )
        .route(
            "/console/payment-exceptions/{id}/close",
            ops(post(exceptions::close)),
        )
}
