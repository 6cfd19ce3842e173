//! `orderd republish`: publishes order events again, after the outbound stream lost some.

use anyhow::{Context as _, Result};
use order_store::Republished;
use time::OffsetDateTime;

use super::Finished;
use crate::app::open_store;
use crate::config::Config;
use crate::nats::Topology;
use crate::relay::{self, Ending, Relay};
use crate::time_format;

/// Puts the events since a time back into the outbox, and publishes them if no service does.
///
/// # Errors
/// If the database or the broker failed before everything was published.
pub async fn carry_out(config: &Config, since: OffsetDateTime) -> Result<Finished> {
    let store = open_store(config)?;
    let context = "order events cannot be published again";
    store.prepare(false).await.context(context)?;
    let relay = Relay::new(Topology::connect(&config.nats).await?, store.clone());
    let done = relay::republish(relay, &store, since, config.relay).await;
    let done = done.context(context)?;
    let Republished {
        transitions,
        exceptions,
    } = done.again;
    let said = format!(
        "{transitions} order event(s) and {exceptions} payment exception(s) since {} are to be \
         published again; the broker drops those that it took within its duplicate window \
         (10 minutes)\n",
        time_format::format(since)
    );
    let ending = match done.ending {
        Ending::NothingToDo => String::new(),
        Ending::Service => "the running service publishes them\n".to_owned(),
        Ending::Here(count) => format!("{count} event(s) published\n"),
        Ending::RelayOff => {
            "ORDERD_RELAY is off: they are not published until it is on\n".to_owned()
        }
        Ending::Failed(count, error) => {
            return Err(error).context(format!(
                "{said}{count} event(s) published, the rest is kept"
            ));
        }
    };
    let left_out = match done.left_out {
        0 => String::new(),
        count => format!(
            "{count} event(s) can't be published and are left out, because they can't be read or are too large: \
             `orderd audit` names those that can't be read\n"
        ),
    };
    Ok(Finished::done(said + &ending + &left_out))
}
