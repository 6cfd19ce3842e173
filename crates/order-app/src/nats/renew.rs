//! Creates, updates or recreates the consumer when it is missing or has other settings than it must have.
//!
//! A consumer that is deleted and recreated reads everything from the beginning. That is safe,
//! since everything old is a duplicate, but expensive. So a consumer is deleted only after the
//! server has created another one with the same settings; each time is counted; and if it has to be
//! done again and again, the pauses grow.

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{FromConsumer as _, Info, pull};
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use async_nats::jetstream::stream::{ConsumerError, ConsumerErrorKind, Stream};
use metrics::counter;

use super::consumer::{
    Difference, Mend, altered, consumer_config, differences, late_start, listed,
};
use super::error::TopologyError;
use super::renewals::Renewals;
use super::topology::Topology;

impl Topology {
    /// Makes sure that the consumer exists and has the right settings.
    pub(super) async fn ensure_consumer(&self, stream: &Stream) -> Result<Info, TopologyError> {
        let mut renewals = self.shared.renewals.lock().await;
        let name = &self.config.consumer;
        let info = match stream.consumer_info(name).await {
            Ok(info) => info,
            Err(error) if matches!(error.kind(), ConsumerInfoErrorKind::NotFound) => {
                return self.make_missing(&mut renewals).await;
            }
            Err(error) => return Err(TopologyError::ReadConsumer(name.clone(), error)),
        };
        if !renewals.known {
            renewals.known = true;
            if let Some(starts) = late_start(info.config.deliver_policy) {
                tracing::warn!(
                    consumer.name = %name,
                    starts,
                    "consumer starts after the first stored message; `orderd reconsume` \
                     consumes the earlier ones"
                );
            }
        }
        let open = renewals.open(differences(&info.config, &self.wanted_consumer()));
        if open.is_empty() {
            return Ok(info);
        }
        tracing::warn!(
            consumer.name = %name,
            differences = %listed(&open),
            "consumer settings differ from what is needed; they are repaired"
        );
        self.put_right(&mut renewals, info, open).await
    }

    /// Whether nothing needs to be repaired.
    pub(super) async fn is_as_wanted(&self, info: &Info) -> bool {
        let found = differences(&info.config, &self.wanted_consumer());
        found.is_empty() || self.shared.renewals.lock().await.open(found).is_empty()
    }

    /// Recreates the consumer, reading from the beginning, because of `why`.
    pub(super) async fn renew_consumer(
        &self,
        info: &Info,
        why: &str,
    ) -> Result<Info, TopologyError> {
        let mut renewals = self.shared.renewals.lock().await;
        self.renew(&mut renewals, info, why).await
    }

    pub(super) fn wanted_consumer(&self) -> pull::Config {
        consumer_config(&self.config.consumer, self.filter())
    }

    async fn make_missing(&self, renewals: &mut Renewals) -> Result<Info, TopologyError> {
        let name = &self.config.consumer;
        if renewals.known {
            self.may_renew(renewals, "it is gone")?;
            renewals.begin();
            counter!("orderd_consumer_recreated_total").increment(1);
            tracing::warn!(
                consumer.name = %name,
                "consumer missing; it is recreated and reads from the beginning"
            );
        }
        self.make(renewals).await
    }

    async fn put_right(
        &self,
        renewals: &mut Renewals,
        info: Info,
        open: Vec<Difference>,
    ) -> Result<Info, TopologyError> {
        let name = &self.config.consumer;
        let wanted = self.wanted_consumer();
        let found = pull::Config::try_from_consumer_config(info.config.clone());
        if let (Ok(found), true) = (found, open.iter().all(|one| one.by == Mend::Update)) {
            match self.ask_for(altered(found, &wanted)).await {
                Ok(info) => {
                    let rest = differences(&info.config, &wanted);
                    if rest.iter().all(|one| one.is_bearable) {
                        renewals.bear(name, rest, None);
                        return Ok(info);
                    }
                }
                Err(error) if !is_refusal(&error) => {
                    return Err(TopologyError::Consumer(name.clone(), error));
                }
                Err(error) if open.iter().all(|one| one.is_bearable) => {
                    renewals.bear(name, open, Some(&error));
                    return Ok(info);
                }
                Err(error) => {
                    tracing::warn!(error = %error, "consumer not updated; it is recreated");
                }
            }
        }
        match self.renew(renewals, &info, &listed(&open)).await {
            Err(TopologyError::Irreplaceable { source, .. })
                if open.iter().all(|one| one.is_bearable) =>
            {
                renewals.bear(name, open, Some(&source));
                Ok(info)
            }
            Err(TopologyError::Resting { .. }) if open.iter().all(|one| one.is_bearable) => {
                Ok(info)
            }
            done => done,
        }
    }

    async fn renew(
        &self,
        renewals: &mut Renewals,
        info: &Info,
        why: &str,
    ) -> Result<Info, TopologyError> {
        let (stream, name) = (&self.config.inbound_stream, &self.config.consumer);
        self.may_renew(renewals, why)?;
        self.try_out().await.map_err(|source| {
            if is_refusal(&source) {
                TopologyError::Irreplaceable {
                    consumer: name.clone(),
                    why: why.to_owned(),
                    source,
                }
            } else {
                TopologyError::Consumer(name.clone(), source)
            }
        })?;
        // Another instance may have recreated it meanwhile.
        let now = self.consumer_info().await?;
        if now.created != info.created || now.config != info.config {
            return Ok(now);
        }
        renewals.begin();
        counter!("orderd_consumer_recreated_total").increment(1);
        tracing::error!(
            consumer.name = %name,
            why,
            "consumer not usable; it is recreated and reads from the beginning"
        );
        let deleted = self.context.delete_consumer_from_stream(name, stream).await;
        deleted.map_err(|error| TopologyError::Consumer(name.clone(), error))?;
        self.make(renewals).await
    }

    fn may_renew(&self, renewals: &Renewals, why: &str) -> Result<(), TopologyError> {
        match renewals.resting() {
            None => Ok(()),
            Some(left) => Err(TopologyError::Resting {
                consumer: self.config.consumer.clone(),
                left,
                why: why.to_owned(),
            }),
        }
    }

    async fn make(&self, renewals: &mut Renewals) -> Result<Info, TopologyError> {
        let name = &self.config.consumer;
        let wanted = self.wanted_consumer();
        let made = self.ask_for(wanted.clone()).await;
        let made = made.map_err(|error| TopologyError::Consumer(name.clone(), error))?;
        renewals.known = true;
        renewals.bear(name, differences(&made.config, &wanted), None);
        Ok(made)
    }

    /// Lets the server create such a consumer under another name. If it can't be deleted, the
    /// server deletes it after some seconds.
    pub(super) async fn try_out(&self) -> Result<(), ConsumerError> {
        let stream = &self.config.inbound_stream;
        let name: String = self.config.consumer.chars().take(200).collect();
        let name = format!("{name}-trial");
        let trial = pull::Config {
            durable_name: None,
            name: Some(name.clone()),
            ..self.wanted_consumer()
        };
        self.ask_for(trial).await?;
        if let Err(error) = self
            .context
            .delete_consumer_from_stream(&name, stream)
            .await
        {
            tracing::debug!(error = %error, "trial consumer not deleted; it expires by itself");
        }
        Ok(())
    }

    /// Creates or updates a consumer, with as many unacked messages as the server allows.
    pub(super) async fn ask_for(&self, mut config: pull::Config) -> Result<Info, ConsumerError> {
        loop {
            let stream = self.config.inbound_stream.clone();
            let asked = self
                .context
                .create_consumer_on_stream(config.clone(), stream);
            match asked.await {
                Ok(made) => return Ok(made.cached_info().clone()),
                Err(error) => match allowed_ack_pending(&error, config.max_ack_pending) {
                    Some(allowed) => config.max_ack_pending = allowed,
                    None => return Err(error),
                },
            }
        }
    }
}

/// Whether the server answered, and refused.
fn is_refusal(error: &ConsumerError) -> bool {
    matches!(error.kind(), ConsumerErrorKind::JetStream(_))
}

/// What a server allows that refused `asked` as too many; always less than that.
fn allowed_ack_pending(error: &ConsumerError, asked: i64) -> Option<i64> {
    let ConsumerErrorKind::JetStream(error) = error.kind() else {
        return None;
    };
    if error.error_code() != ErrorCode::CONSUMER_MAX_PENDING_ACK_EXCESS {
        return None;
    }
    // "consumer max ack pending exceeds system limit of 100"
    let text = error.to_string();
    let named = text.rsplit_once("limit of ").map(|(_, rest)| {
        let end = rest.find(|c: char| !c.is_ascii_digit());
        &rest[..end.unwrap_or(rest.len())]
    });
    let named = named.and_then(|digits| digits.parse().ok());
    let allowed = named.filter(|named| (1..asked).contains(named));
    let allowed = allowed.unwrap_or(asked / 2);
    (allowed > 0).then_some(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u64, description: &str) -> ConsumerError {
        let error = serde_json::json!({"code": 400, "err_code": code, "description": description});
        ConsumerError::new(ConsumerErrorKind::JetStream(
            serde_json::from_value(error).unwrap(),
        ))
    }

    #[test]
    fn as_much_is_asked_for_as_the_server_allows() {
        let said = |description| allowed_ack_pending(&refused(10121, description), 50_000);
        assert_eq!(
            said("consumer max ack pending exceeds system limit of 100"),
            Some(100)
        );
        assert_eq!(said("too much"), Some(25_000));
        assert_eq!(said("limit of 60000"), Some(25_000));
        assert_eq!(allowed_ack_pending(&refused(10121, "no"), 1), None);
        assert_eq!(
            allowed_ack_pending(&refused(10026, "limit of 100"), 50_000),
            None
        );
    }
}
