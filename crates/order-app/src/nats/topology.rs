//! The streams and the durable consumer: created if missing, verified if they exist.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::consumer::Info as ConsumerInfo;
use async_nats::jetstream::context::{
    CreateStreamError, CreateStreamErrorKind, GetStreamError, GetStreamErrorKind,
};
use async_nats::jetstream::stream::{Config as StreamConfig, Info as StreamInfo, Stream};
use async_nats::jetstream::{Context, ErrorCode};

use super::astray::Seen;
use super::connect::{ConnectError, connect_with};
use super::error::{About, TopologyError};
use super::fitness::{Remark, Role, remarks, stream_config, verify};
use super::pulls::Pulls;
use super::refusals::Refusals;
use super::renewals::Renewals;
use super::replies::Replies;
use crate::config::NatsConfig;
use crate::lock::lock;
use crate::telemetry::chain;

/// The streams and the consumer in the broker. Cheap to clone; all clones share what they learn.
#[derive(Debug, Clone)]
pub struct Topology {
    pub(super) context: Context,
    pub(super) config: NatsConfig,
    pub(super) shared: Arc<Shared>,
    /// Those of this connection.
    pub(super) replies: Replies,
}

/// What is known about the broker, over all connections.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) seen: Mutex<Option<Seen>>,
    pub(super) renewals: tokio::sync::Mutex<Renewals>,
    pub(super) refusals: Refusals,
    pub(super) pulls: Pulls,
    /// Why a stream and its consumer could not be made sure of, the last time it was tried.
    troubles: Mutex<BTreeMap<Role, (About, String)>>,
    /// The last remarks on each stream, so that they are logged once.
    remarks: Mutex<BTreeMap<String, Vec<Remark>>>,
}

impl Topology {
    /// Connects in the background.
    ///
    /// # Errors
    /// If a file of credentials or certificates can't be used.
    pub async fn connect(config: &NatsConfig) -> Result<Self, ConnectError> {
        let shared = Arc::<Shared>::default();
        let replies = Replies::default();
        let client = connect_with(config, &shared.refusals, &replies, |_| ()).await?;
        Ok(Self {
            context: async_nats::jetstream::new(client),
            config: config.clone(),
            shared,
            replies,
        })
    }

    /// The same over another connection.
    pub(super) fn over(&self, client: async_nats::Client, replies: Replies) -> Self {
        Self {
            context: async_nats::jetstream::new(client),
            replies,
            ..self.clone()
        }
    }

    /// The connection.
    pub fn client(&self) -> async_nats::Client {
        self.context.client()
    }

    /// What the broker denies.
    pub fn refusals(&self) -> &Refusals {
        &self.shared.refusals
    }

    /// Makes the connection again if replies don't arrive over it any more.
    pub async fn renew_connection(&self) {
        self.replies.renew(&self.client()).await;
    }

    /// How pulling goes.
    pub fn pulls(&self) -> &Pulls {
        &self.shared.pulls
    }

    /// The inbound subject without the provider.
    pub fn inbound_subject(&self) -> &str {
        &self.config.inbound_subject
    }

    /// JetStream on the connection.
    pub fn context(&self) -> Context {
        self.context.clone()
    }

    /// The stream of order events.
    pub fn outbound_stream(&self) -> &str {
        &self.config.outbound_stream
    }

    /// The outbound subjects without the event.
    pub fn outbound_prefix(&self) -> &str {
        &self.config.outbound_prefix
    }

    /// Makes sure of the inbound stream and its consumer; safe to repeat.
    ///
    /// # Errors
    /// [`TopologyError::Unfit`] if the stream can't be used as it is; the others may pass.
    pub async fn ensure(&self) -> Result<ConsumerInfo, TopologyError> {
        let ensured = async {
            let stream = self.ensure_inbound().await?;
            self.ensure_consumer(&stream).await?;
            self.follow_consumer().await
        };
        self.remember(Role::Inbound, ensured.await)
    }

    /// Makes sure of the outbound stream; safe to repeat.
    ///
    /// # Errors
    /// [`TopologyError::Unfit`] if the stream can't be used as it is; the others may pass.
    pub async fn ensure_outbound(&self) -> Result<(), TopologyError> {
        let ensured = self.ensure_stream(Role::Outbound).await.map(drop);
        self.remember(Role::Outbound, ensured)
    }

    /// Why streams and consumer could not be made sure of, the last time it was tried. An
    /// inspection only finds that they are missing.
    pub fn troubles(&self) -> Vec<(About, String)> {
        lock(&self.shared.troubles).values().cloned().collect()
    }

    fn remember<T>(&self, role: Role, done: Result<T, TopologyError>) -> Result<T, TopologyError> {
        let mut troubles = lock(&self.shared.troubles);
        match &done {
            Ok(_) => troubles.remove(&role),
            Err(error) => troubles.insert(role, (error.about(), chain(error))),
        };
        done
    }

    /// Makes sure of the outbound stream like [`Self::ensure_outbound`]; returns whether it was
    /// missing.
    ///
    /// # Errors
    /// [`TopologyError::Unfit`] if the stream can't be used as it is; the others may pass.
    pub async fn mend_outbound(&self) -> Result<bool, TopologyError> {
        let was_missing = match self.stream(Role::Outbound).await {
            Ok(_) => false,
            Err(TopologyError::ReadStream(_, error)) if is_missing(&error) => true,
            Err(error) => return Err(error),
        };
        self.ensure_outbound().await?;
        Ok(was_missing)
    }

    /// The state of the consumer.
    ///
    /// # Errors
    /// If it doesn't exist, or the broker doesn't answer.
    pub async fn consumer_info(&self) -> Result<ConsumerInfo, TopologyError> {
        let (stream, consumer) = (&self.config.inbound_stream, &self.config.consumer);
        let found = self.context.get_stream_no_info(stream).await;
        let found = found.map_err(|error| TopologyError::ReadStream(stream.clone(), error))?;
        let info = found.consumer_info(consumer).await;
        info.map_err(|error| TopologyError::ReadConsumer(consumer.clone(), error))
    }

    pub(super) async fn inbound_info(&self) -> Result<StreamInfo, TopologyError> {
        let found = self.stream(Role::Inbound).await?;
        Ok(found.cached_info().clone())
    }

    /// Remembers what was seen; returns what was seen before.
    pub(super) fn swap_seen(&self, seen: Seen) -> Option<Seen> {
        lock(&self.shared.seen).replace(seen)
    }

    /// The filter subject of the consumer.
    pub(super) fn filter(&self) -> String {
        format!("{}.>", self.config.inbound_subject)
    }

    pub(super) async fn ensure_inbound(&self) -> Result<Stream, TopologyError> {
        self.ensure_stream(Role::Inbound).await
    }

    /// Checks that a stream can be used, and logs remarks on it once.
    pub(super) fn check(&self, role: Role, found: &StreamConfig) -> Result<(), TopologyError> {
        let wanted = self.stream_config(role);
        verify(found, &wanted)?;
        let remarks = remarks(found, &wanted);
        let mut known = lock(&self.shared.remarks);
        if known.get(&found.name) != Some(&remarks) {
            for Remark {
                field,
                found: value,
                wanted,
            } in &remarks
            {
                tracing::warn!(
                    stream.name = %found.name,
                    field,
                    found = %value,
                    wanted = %wanted,
                    "stream settings differ from what is recommended; they are left as they are"
                );
            }
            known.insert(found.name.clone(), remarks);
        }
        Ok(())
    }

    pub(super) async fn stream(&self, role: Role) -> Result<Stream, TopologyError> {
        let name = self.stream_name(role);
        let found = self.context.get_stream(name).await;
        found.map_err(|error| TopologyError::ReadStream(name.to_owned(), error))
    }

    async fn ensure_stream(&self, role: Role) -> Result<Stream, TopologyError> {
        match self.stream(role).await {
            Ok(stream) => {
                self.check(role, &stream.cached_info().config)?;
                Ok(stream)
            }
            Err(TopologyError::ReadStream(name, error)) if is_missing(&error) => {
                tracing::info!(stream.name = %name, "stream missing; it is created");
                let created = self.create_stream(self.stream_config(role)).await;
                created.map_err(|error| TopologyError::CreateStream(name, error))
            }
            Err(error) => Err(error),
        }
    }

    /// Creates a stream. If the server limits the duplicate window, its own default is taken.
    async fn create_stream(&self, wanted: StreamConfig) -> Result<Stream, CreateStreamError> {
        match self.context.create_stream(wanted.clone()).await {
            Err(error) if is_about_the_window(&error) => {
                let usual = StreamConfig {
                    duplicate_window: Duration::ZERO,
                    ..wanted.clone()
                };
                let created = self.context.create_stream(usual).await?;
                let granted = created.cached_info().config.duplicate_window;
                tracing::warn!(
                    stream.name = %wanted.name,
                    wanted = ?wanted.duplicate_window,
                    ?granted,
                    "stream created with a shorter duplicate window than is wanted"
                );
                Ok(created)
            }
            created => created,
        }
    }

    fn stream_name(&self, role: Role) -> &str {
        match role {
            Role::Inbound => &self.config.inbound_stream,
            Role::Outbound => &self.config.outbound_stream,
        }
    }

    pub(super) fn stream_config(&self, role: Role) -> StreamConfig {
        let subject = match role {
            Role::Inbound => self.filter(),
            Role::Outbound => format!("{}.>", self.config.outbound_prefix),
        };
        stream_config(self.stream_name(role), subject, self.config.replicas)
    }
}

fn is_missing(error: &GetStreamError) -> bool {
    match error.kind() {
        GetStreamErrorKind::JetStream(error) => error.error_code() == ErrorCode::STREAM_NOT_FOUND,
        _ => false,
    }
}

/// Servers have one error code for every wrong setting of a stream.
fn is_about_the_window(error: &CreateStreamError) -> bool {
    match error.kind() {
        CreateStreamErrorKind::JetStream(error) => error.to_string().contains("duplicates window"),
        _ => false,
    }
}
