//! Performs the steps of a plan, wave after wave, through restarts of service and broker.

use futures_util::{StreamExt, stream};
use serde::Serialize;
use serde_json::{Value, json};

use crate::plan::{Message, Step};
use crate::session::Session;
use crate::{Difference, Differences, Error};

/// What was thrown.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Thrown {
    /// Orders created, including those that an earlier try had created.
    pub created: u64,
    /// Messages with an ack.
    pub published: u64,
    /// Publishes without an ack that may have been stored all the same.
    pub uncertain: u64,
    /// Answers to commands that the contract doesn't allow.
    #[serde(flatten)]
    pub differences: Differences,
}

/// How often a command is tried again while the service answers with faults.
const FAULTS_MAX: u32 = 10;

/// Performs the whole plan.
pub(crate) async fn throw(session: &Session<'_>) -> Result<Thrown, Error> {
    let plan = session.plan;
    session.progress.enter("throwing", plan.steps.len() as u64);
    let mut thrown = Thrown::default();
    for wave in plan.waves() {
        perform(session, wave, None, &mut thrown).await?;
    }
    Ok(thrown)
}

/// Performs these steps in no particular order; `pay_by` is that of the orders to create.
pub(crate) async fn perform(
    session: &Session<'_>,
    steps: &[Step],
    pay_by: Option<&str>,
    thrown: &mut Thrown,
) -> Result<(), Error> {
    let steps = steps.iter().map(|&step| perform_one(session, step, pay_by));
    let mut done = stream::iter(steps).buffer_unordered(session.options.in_flight.max(1));
    while let Some(step) = done.next().await {
        session.progress.advance();
        match step? {
            Done::Published { uncertain } => {
                thrown.published += 1;
                thrown.uncertain += uncertain;
            }
            Done::Created => thrown.created += 1,
            Done::Cancelled => {}
            Done::Refused(difference) => thrown.differences.extend([difference]),
        }
    }
    Ok(())
}

/// What a step did.
enum Done {
    Published { uncertain: u64 },
    Created,
    Cancelled,
    Refused(Difference),
}

async fn perform_one(
    session: &Session<'_>,
    step: Step,
    pay_by: Option<&str>,
) -> Result<Done, Error> {
    let Session { plan, truth, .. } = session;
    let (refused, done) = match step {
        Step::Create(number) => {
            let order = plan.order(number);
            let mut body = json!({
                "order_id": plan.order_id(number),
                "amount": order.amount,
                "currency": order.currency.as_str(),
            });
            if let Some(pay_by) = pay_by {
                body["pay_by"] = pay_by.into();
            }
            // 200: an earlier try was committed and its answer lost.
            let refused = command(session, "/v1/orders", &body, &[200, 201]).await;
            (refused, Done::Created)
        }
        Step::Cancel(order) => {
            let path = format!("/v1/orders/{}/cancel", plan.order_id(order));
            let body = json!({"reason": "order-drill"});
            let refused = command(session, &path, &body, &[200, 409]).await;
            if let Some(truth) = truth {
                truth.cancelled(order);
            }
            (refused, Done::Cancelled)
        }
        Step::Publish(message) => {
            let message = plan.message(message);
            if let (Message::Payment { fact, .. }, Some(truth)) = (message, truth) {
                truth.happens(fact);
            }
            let inbound = &session.options.names.inbound_subject;
            let subject = format!("{inbound}.{}", plan.subject_provider(message));
            let body = plan.body(message);
            let uncertain = session.broker.publish(subject, body).await?;
            return Ok(Done::Published { uncertain });
        }
    };
    Ok(refused.map_or(done, Done::Refused))
}

/// Posts a command; an answer that isn't allowed is a difference.
async fn command(
    session: &Session<'_>,
    path: &str,
    body: &Value,
    allowed: &[u16],
) -> Option<Difference> {
    let mut answer = session.api.post(path, body).await;
    for _ in 1..FAULTS_MAX {
        if answer.status < 500 {
            break;
        }
        answer = session.api.post(path, body).await;
    }
    if allowed.contains(&answer.status) {
        return None;
    }
    let allowed: Vec<String> = allowed.iter().map(u16::to_string).collect();
    let what = format!("POST {path} {body}");
    Some(Difference::new(
        what,
        allowed.join(" or "),
        answer.excerpt(),
    ))
}
