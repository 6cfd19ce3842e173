//! The commands that tell again: `republish` and `reconsume`.

use anyhow::{Context as _, Result};
use order_store::Republished;
use time::OffsetDateTime;

use super::open_store;
use crate::config::Config;
use crate::nats::{self, Topology};
use crate::relay::{self, Ending, Relay};
use crate::time_format;

/// Publishes order events again; what is to be said about it.
///
/// # Errors
/// If the database or the broker failed before everything was published.
pub async fn republish(config: &Config, since: OffsetDateTime) -> Result<String> {
    let store = open_store(config);
    let context = "order events cannot be published again";
    store.check_schema().await.context(context)?;
    let client = nats::connect(&config.nats).await?;
    let relay = Relay::new(Topology::new(client, config.nats.clone()), store.clone());
    let done = relay::republish(relay, &store, since, config.relay).await;
    let done = done.context(context)?;
    let Republished {
        transitions,
        exceptions,
    } = done.marked;
    let said = format!(
        "{transitions} order event(s) and {exceptions} payment exception(s) since {} are marked to \
         be published again; the broker drops those that it took within its duplicate window \
         (10 minutes)\n",
        time_format::format(since)
    );
    let ending = match done.ending {
        Ending::NothingToDo => String::new(),
        Ending::Service => "the running service publishes them\n".to_owned(),
        Ending::Here(count) => format!("{count} event(s) published\n"),
        Ending::RelayOff => "ORDERD_RELAY is off: nobody publishes them now\n".to_owned(),
        Ending::Failed(count, error) => {
            return Err(error).context(format!(
                "{said}{count} event(s) published, the rest is kept"
            ));
        }
    };
    Ok(said + &ending)
}

/// Lets payment events be consumed again; what is to be said about it.
///
/// # Errors
/// If a service is running, or the broker failed.
pub async fn reconsume(config: &Config, since: OffsetDateTime) -> Result<String> {
    // A SQLite file that is served says so at once; for PostgreSQL the consumer is watched.
    let _lock = match config.database_url.sqlite_path() {
        Some(path) if path.exists() => config.database_url.lock_for_serving()?,
        _ => None,
    };
    let client = nats::connect(&config.nats).await?;
    let topology = Topology::new(client, config.nats.clone());
    let done = topology.reconsume(since).await?;
    let from = match done.earlier_sequence {
        Some(sequence) => format!("message {sequence}, the first one not consumed yet"),
        None => time_format::format(since),
    };
    Ok(format!(
        "consumer {} starts again at {from}: {} message(s) will be delivered, those that are \
         recorded already as DUPLICATE\n",
        config.nats.consumer, done.messages
    ))
}
