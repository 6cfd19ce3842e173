//! `orderd reconsume`: consumes payment events again, after the database lost some.

use anyhow::Result;
use time::OffsetDateTime;

use super::Finished;
use crate::config::Config;
use crate::nats::Topology;
use crate::time_format;

/// Sets the consumer back to a time.
///
/// # Errors
/// If a service is running, or the broker failed.
pub async fn carry_out(config: &Config, since: OffsetDateTime) -> Result<Finished> {
    // The lock of a SQLite file shows a running service at once; with PostgreSQL, the consumer's activity
    // does.
    config.database_url.check_file(false)?;
    let _lock = config.database_url.lock_for_serving()?;
    let topology = Topology::connect(&config.nats).await?;
    let done = topology.reconsume(since).await?;
    let from = match done.earlier_sequence {
        Some(sequence) => format!("message {sequence}, the first one not consumed yet"),
        None => time_format::format(since),
    };
    Ok(Finished::done(format!(
        "consumer {} starts again at {from}: {} message(s) will be delivered; those that are \
         already recorded count as DUPLICATE\n",
        config.nats.consumer, done.messages
    )))
}
