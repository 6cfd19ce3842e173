//! What the durable consumer must be like, and how one that differs is put right.

use std::time::Duration;

use async_nats::jetstream::consumer::{
    AckPolicy, Config, DeliverPolicy, FromConsumer as _, PullConsumer, ReplayPolicy, pull,
};
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use async_nats::jetstream::stream::Stream;

use super::topology::{ACK_WAIT, Topology, TopologyError};

/// How many messages may be in hand, over all instances: far more than they hold in batches, so
/// that one that died with a batch doesn't stall the others.
const ACK_PENDING_MAX: i64 = 50_000;

/// Pulls that may wait at a time, over all instances: fewer would turn some away.
const WAITING_MIN: i64 = 64;

/// The consumer as this service makes it.
pub(super) fn consumer_config(name: &str, filter: String) -> pull::Config {
    pull::Config {
        durable_name: Some(name.to_owned()),
        ack_policy: AckPolicy::Explicit,
        deliver_policy: DeliverPolicy::All,
        ack_wait: ACK_WAIT,
        max_deliver: -1,
        filter_subject: filter,
        max_ack_pending: ACK_PENDING_MAX,
        ..pull::Config::default()
    }
}

/// How a consumer differs from what is needed. Where it starts is its own business: `reconsume`
/// says so.
pub(super) fn differences(found: &Config, wanted: &pull::Config) -> Vec<String> {
    fn shown(value: &impl std::fmt::Debug) -> String {
        format!("{value:?}")
    }
    [
        (
            "deliver_subject",
            shown(&found.deliver_subject),
            shown(&None::<String>),
        ),
        (
            "ack_policy",
            shown(&found.ack_policy),
            shown(&wanted.ack_policy),
        ),
        ("ack_wait", shown(&found.ack_wait), shown(&wanted.ack_wait)),
        (
            "max_deliver",
            shown(&found.max_deliver),
            shown(&wanted.max_deliver),
        ),
        ("backoff", shown(&found.backoff), shown(&wanted.backoff)),
        (
            "filter_subject",
            shown(&found.filter_subject),
            shown(&wanted.filter_subject),
        ),
        (
            "filter_subjects",
            shown(&found.filter_subjects),
            shown(&wanted.filter_subjects),
        ),
        (
            "max_ack_pending",
            shown(&found.max_ack_pending),
            shown(&wanted.max_ack_pending),
        ),
        (
            "replay_policy",
            shown(&found.replay_policy),
            shown(&ReplayPolicy::Instant),
        ),
        ("rate_limit", shown(&found.rate_limit), shown(&0)),
        ("headers_only", shown(&found.headers_only), shown(&false)),
        (
            "memory_storage",
            shown(&found.memory_storage),
            shown(&false),
        ),
        (
            "inactive_threshold",
            shown(&found.inactive_threshold),
            shown(&Duration::ZERO),
        ),
        (
            "max_waiting",
            // What is more is fine; a push consumer has none.
            shown(&found.max_waiting.min(WAITING_MIN)),
            shown(&WAITING_MIN),
        ),
    ]
    .into_iter()
    .filter(|(_, found, wanted)| found != wanted)
    .map(|(field, found, wanted)| format!("{field} is {found}, becomes {wanted}"))
    .collect()
}

impl Topology {
    pub(super) async fn ensure_consumer(
        &self,
        stream: &Stream,
    ) -> Result<PullConsumer, TopologyError> {
        let name = &self.config.consumer;
        let wanted = consumer_config(name, self.filter());
        match stream.consumer_info(name).await {
            Ok(info) => {
                let differences = differences(&info.config, &wanted);
                if !differences.is_empty() {
                    tracing::warn!(
                        consumer.name = %name,
                        differences = %differences.join("; "),
                        "the consumer differs from what is needed and is put right"
                    );
                    self.put_right(info.config, &wanted).await?;
                }
            }
            Err(error) if matches!(error.kind(), ConsumerInfoErrorKind::NotFound) => {}
            Err(error) => return Err(TopologyError::ReadConsumer(name.clone(), error)),
        }
        stream
            .get_or_create_consumer(name, wanted)
            .await
            .map_err(|error| TopologyError::Consumer(name.clone(), error))
    }

    /// Alters a consumer; one that can't be altered is deleted, to be made from the beginning.
    async fn put_right(&self, found: Config, wanted: &pull::Config) -> Result<(), TopologyError> {
        let (stream, name) = (&self.config.inbound_stream, &self.config.consumer);
        if let Ok(base) = pull::Config::try_from_consumer_config(found) {
            let altered = pull::Config {
                durable_name: wanted.durable_name.clone(),
                ack_policy: wanted.ack_policy,
                ack_wait: wanted.ack_wait,
                max_deliver: wanted.max_deliver,
                backoff: Vec::new(),
                filter_subject: wanted.filter_subject.clone(),
                filter_subjects: Vec::new(),
                max_ack_pending: wanted.max_ack_pending,
                replay_policy: wanted.replay_policy,
                rate_limit: 0,
                headers_only: false,
                memory_storage: false,
                inactive_threshold: Duration::ZERO,
                max_waiting: base.max_waiting.max(WAITING_MIN),
                ..base
            };
            match self
                .context
                .create_consumer_on_stream(altered, stream.clone())
                .await
            {
                Ok(altered) if differences(&altered.cached_info().config, wanted).is_empty() => {
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(error = %error, "the consumer can't be altered");
                }
            }
        }
        tracing::warn!(consumer.name = %name, "the consumer is made again and reads from the beginning");
        self.context
            .delete_consumer_from_stream(name, stream)
            .await
            .map(drop)
            .map_err(|error| TopologyError::Consumer(name.clone(), error))
    }
}
