//! Carries out the steps of a plan, wave after wave, through restarts of whatever it talks to.

use futures_util::{StreamExt, stream};
use serde_json::json;

use crate::api::Api;
use crate::payment_service::Truth;
use crate::progress::{Phase, Progress};
use crate::{Broker, Difference, Differences, Error, Message, Plan, RunOptions, Step};

/// What was thrown.
#[derive(Debug, Clone, Default)]
pub struct Thrown {
    /// Messages with an ack.
    pub published: u64,
    /// Publishes without an ack that may have been stored all the same.
    pub uncertain: u64,
    /// Orders created, or found created by an earlier try.
    pub created: u64,
    /// Answers to commands that the contract doesn't allow.
    pub differences: Differences,
}

/// A broken server may answer a command so often before it is believed.
const FAULTS_MAX: u32 = 10;

pub(crate) async fn throw(
    plan: &Plan,
    options: &RunOptions,
    api: &Api,
    broker: &Broker,
    truth: Option<&Truth>,
    progress: &Progress,
) -> Result<Thrown, Error> {
    progress.enter(Phase::Throwing, plan.steps.len() as u64);
    let hand = Hand {
        plan,
        api,
        broker,
        truth,
        subject: &options.names.inbound_subject,
        pay_by: None,
    };
    let mut thrown = Thrown::default();
    for wave in plan.waves() {
        let steps = wave.iter().copied().map(|step| hand.carry_out(step));
        let mut done = stream::iter(steps).buffer_unordered(options.in_flight.max(1));
        while let Some(step) = done.next().await {
            progress.advance();
            thrown.add(step?);
        }
    }
    Ok(thrown)
}

impl Thrown {
    fn add(&mut self, done: Done) {
        match done {
            Done::Published { uncertain } => {
                self.published += 1;
                self.uncertain += uncertain;
            }
            Done::Created => self.created += 1,
            Done::Cancelled => {}
            Done::Refused(difference) => self.differences.push(difference),
        }
    }
}

/// What a step did.
pub(crate) enum Done {
    Published { uncertain: u64 },
    Created,
    Cancelled,
    Refused(Difference),
}

#[derive(Clone, Copy)]
pub(crate) struct Hand<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) api: &'a Api,
    pub(crate) broker: &'a Broker,
    pub(crate) truth: Option<&'a Truth>,
    pub(crate) subject: &'a str,
    /// Of the orders to be created, if they are to have one.
    pub(crate) pay_by: Option<&'a str>,
}

impl Hand<'_> {
    pub(crate) async fn carry_out(self, step: Step) -> Result<Done, Error> {
        match step {
            Step::Create(order) => Ok(self.create(order).await),
            Step::Cancel(order) => Ok(self.cancel(order).await),
            Step::Publish(message) => self.publish(message).await,
        }
    }

    async fn publish(self, message: u32) -> Result<Done, Error> {
        let message = self.plan.message(message);
        if let (Message::Payment { fact, .. }, Some(truth)) = (message, self.truth) {
            truth.happens(*fact);
        }
        let subject = format!("{}.{}", self.subject, self.plan.subject_provider(message));
        let uncertain = self
            .broker
            .publish(subject, self.plan.body(message))
            .await?;
        Ok(Done::Published { uncertain })
    }

    async fn create(self, number: u32) -> Done {
        let order = self.plan.order(number);
        let mut body = json!({
            "order_id": self.plan.order_id(number),
            "amount": order.amount,
            "currency": order.currency.as_str(),
        });
        if let Some(pay_by) = self.pay_by {
            body["pay_by"] = pay_by.into();
        }
        // 200: an earlier try was committed and its answer lost.
        match self
            .command("/v1/orders", &body.to_string(), &[200, 201])
            .await
        {
            None => Done::Created,
            Some(difference) => Done::Refused(difference),
        }
    }

    async fn cancel(self, order: u32) -> Done {
        let path = format!("/v1/orders/{}/cancel", self.plan.order_id(order));
        let refused = self
            .command(&path, r#"{"reason":"order-drill"}"#, &[200, 409])
            .await;
        if let Some(truth) = self.truth {
            truth.cancelled(order);
        }
        match refused {
            None => Done::Cancelled,
            Some(difference) => Done::Refused(difference),
        }
    }

    async fn command(self, path: &str, body: &str, allowed: &[u16]) -> Option<Difference> {
        let mut answer = self.api.post(path, body.to_owned()).await;
        for _ in 1..FAULTS_MAX {
            if answer.status < 500 {
                break;
            }
            answer = self.api.post(path, body.to_owned()).await;
        }
        let expected = || {
            allowed
                .iter()
                .map(u16::to_string)
                .collect::<Vec<_>>()
                .join(" or ")
        };
        (!allowed.contains(&answer.status))
            .then(|| Difference::new(format!("POST {path} {body}"), expected(), answer.excerpt()))
    }
}
