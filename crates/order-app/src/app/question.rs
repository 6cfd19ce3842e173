//! Checks that the questions to the payment service reach it.
//!
//! A stream that captures their subject stores them and answers each with its ack. At the start
//! that is a mistake in the settings, and refuses it; later it makes the service not ready until it
//! is corrected.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, PaymentQuery};
use crate::health::{Cause, Health};
use crate::nats::Topology;
use crate::pause::pause;
use crate::telemetry::chain;

/// How often the streams are checked.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The same until the first answer.
const LOOK_EVERY_AT_FIRST: Duration = Duration::from_millis(500);

/// Checks until `stop`, if questions go over NATS.
///
/// # Errors
/// If a stream captures the questions from the start.
pub(super) async fn check_regularly(
    topology: Topology,
    query: PaymentQuery,
    health: Health,
    stop: CancellationToken,
) -> Result<()> {
    let PaymentQuery::Nats(subject) = query else {
        stop.cancelled().await;
        return Ok(());
    };
    let mut was_free = false;
    while !stop.is_cancelled() {
        match topology.check_question(&subject).await {
            Ok(()) => {
                was_free = true;
                health.clear_cause(Cause::PaymentQueryCaptured);
            }
            Err(error) if error.is_unfit() && was_free => {
                health.set_cause(Cause::PaymentQueryCaptured, chain(&error));
            }
            Err(error) if error.is_unfit() => return Err(error).context(UNUSABLE),
            Err(error) => {
                tracing::debug!(
                    error = %chain(&error),
                    "streams not listed; it is unknown whether one captures the payment query"
                );
            }
        }
        let rest = if was_free {
            LOOK_EVERY
        } else {
            LOOK_EVERY_AT_FIRST
        };
        pause(&stop, rest).await;
    }
    Ok(())
}

/// Checks once, for a one-shot command. A broker that can't be reached isn't an error here.
///
/// # Errors
/// If a stream captures the questions.
pub(super) async fn check(config: &Config) -> Result<()> {
    let PaymentQuery::Nats(subject) = &config.payment_query else {
        return Ok(());
    };
    let topology = Topology::connect(&config.nats).await?;
    match topology.check_question(subject).await {
        Err(error) if error.is_unfit() => Err(error).context(UNUSABLE),
        Err(error) => {
            tracing::warn!(
                error = %chain(&error),
                "streams not listed; it is unknown whether one captures the payment query"
            );
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

const UNUSABLE: &str = "ORDERD_PAYMENT_QUERY cannot be used";
