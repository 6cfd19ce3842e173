//! Does the outbound stream tell every applied transition, in order, in the contract's shape?

mod follow;
mod trail;

pub(crate) use follow::Follow;
pub(crate) use trail::Trail;

use std::time::Duration;

use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::message::Message;
use futures_util::StreamExt;
use tokio::time::timeout;

use crate::{Broker, Differences, Error, Names};

/// Reads the stream from its start until nothing is missing, or nothing more comes.
pub(crate) async fn follow(
    broker: &Broker,
    names: &Names,
    patience: Duration,
    mut follow: Follow<'_>,
) -> Result<Differences, Error> {
    let outbound = |source: async_nats::Error| Error::Outbound {
        stream: names.outbound_stream.clone(),
        source,
    };
    let stream = broker
        .context()
        .get_stream(&names.outbound_stream)
        .await
        .map_err(|cause| outbound(cause.into()))?;
    let last = stream.cached_info().state.last_sequence;
    let config = OrderedConfig {
        filter_subject: format!("{}.>", names.outbound_prefix),
        ..OrderedConfig::default()
    };
    let consumer = stream
        .create_consumer(config)
        .await
        .map_err(|cause| outbound(cause.into()))?;
    let mut messages = consumer
        .messages()
        .await
        .map_err(|cause| outbound(cause.into()))?;
    let mut read = 0;
    // What was there at the start is read to its end: a surplus event may be the last one.
    while read < last || follow.missing() > 0 {
        let Ok(next) = timeout(patience, messages.next()).await else {
            break;
        };
        let Some(message) = next else { break };
        let message = message.map_err(|cause| outbound(cause.into()))?;
        read = message.info().map_err(outbound)?.stream_sequence;
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
