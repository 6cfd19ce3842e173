//! How the service is doing.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::frame::visitor::Visitor;
use super::frame::{Frame, Tab, page};
use super::show::text::Text;
use crate::health::Health;

#[derive(Template)]
#[template(path = "overview/page.html")]
struct OverviewPage {
    frame: Frame,
    is_ready: bool,
    reasons: Vec<(&'static str, Text)>,
}

pub(super) async fn overview(State(health): State<Health>, visitor: Visitor) -> Response {
    let reasons = health.not_ready_because().into_iter();
    page(
        StatusCode::OK,
        &OverviewPage {
            frame: Frame::new("Overview", Tab::Overview, &visitor),
            is_ready: health.ready(),
            reasons: reasons
                .map(|(cause, why)| (cause.as_str(), Text::block(&why)))
                .collect(),
        },
    )
}
