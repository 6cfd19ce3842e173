//! Does the outbound stream have every applied transition, in order, in the contract's shape?

mod follow;

pub(crate) use follow::Follow;
#[cfg(test)]
pub(crate) use follow::micros;

use std::time::Duration;

use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::message::Message;
use futures_util::StreamExt;
use tokio::time::timeout;

use crate::session::Session;
use crate::{Differences, Error};

/// Events may take this long, even if differences may not.
const PATIENCE_MIN: Duration = Duration::from_secs(5);

/// Reads the stream from its start until nothing is missing, or until nothing more comes.
pub(crate) async fn follow(
    session: &Session<'_>,
    follow: Follow<'_>,
) -> Result<Differences, Error> {
    let stream = &session.options.names.outbound_stream;
    let what = format!("cannot read the stream {stream} (check --outbound-stream)");
    read(session, follow).await.map_err(Error::because(what))
}

async fn read(
    session: &Session<'_>,
    mut follow: Follow<'_>,
) -> Result<Differences, async_nats::Error> {
    let names = &session.options.names;
    let patience = session.options.patience.max(PATIENCE_MIN);
    let context = session.broker.context();
    let stream = context.get_stream(&names.outbound_stream).await?;
    let last = stream.cached_info().state.last_sequence;
    let config = OrderedConfig {
        filter_subject: format!("{}.>", names.outbound_prefix),
        ..OrderedConfig::default()
    };
    let mut messages = stream.create_consumer(config).await?.messages().await?;
    let mut read = 0;
    // All that was there at the start is read: the last event may be one too many.
    while read < last || follow.missing() > 0 {
        let Ok(Some(message)) = timeout(patience, messages.next()).await else {
            break;
        };
        let message = message?;
        read = message.info()?.stream_sequence;
        follow.take(&message.subject, message_id(&message), &message.payload);
    }
    Ok(follow.finish())
}

fn message_id(message: &Message) -> &str {
    message
        .headers
        .as_ref()
        .and_then(|headers| headers.get(async_nats::header::NATS_MESSAGE_ID))
        .map_or("", |value| value.as_str())
}
