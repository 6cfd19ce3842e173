//! A step of the relay: a page of the outbox is published and concluded, while the next one is read.

use std::collections::HashSet;
use std::sync::Arc;

use order_store::{
    AsidePlace, CarriedOver, Concluded, Fate, OutboxEvent, OutboxPage, OutboxPlace, crash,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::batch::Batch;
use super::notes::{count, note, unexpected, warn_of};
use super::publish::{self, Fault, Round};
use super::{Error, RETRY_EVERY, Relay, Step};
use crate::telemetry::chain;

impl Relay {
    /// A step of the holder of the lease.
    pub(super) async fn held_step(&mut self, stop: &CancellationToken) -> Result<Step, Error> {
        if self.try_subjects().await? == Concluded::LeaseLost {
            return Ok(Step::LeaseLost);
        }
        let Some(again) = self.try_set_aside(stop).await? else {
            return Ok(Step::LeaseLost);
        };
        let page = match self.page.take() {
            Some(page) => page,
            None => match self.begin_pass().await? {
                Begun::Page(page) => page,
                Begun::CarriedOver => return Ok(Step::Published(again)),
                Begun::LeaseLost => return Ok(Step::LeaseLost),
            },
        };
        if page.events.is_empty() {
            return Ok(match again {
                0 if self.walk.is_none() => Step::Idle,
                again => Step::Published(again),
            });
        }
        crash::point("relay:read");
        let set_aside = self.orders_set_aside(&page.events).await?;
        let next = page.next;
        let batch = Batch::new(&page.events, &set_aside);
        let published = self.publish_page(page.events, batch, next, stop).await?;
        Ok(published.map_or(Step::LeaseLost, |published| {
            Step::Published(again + published)
        }))
    }

    /// Reads the first page; moves events to the outbox that older versions of this service left.
    async fn begin_pass(&mut self) -> Result<Begun, Error> {
        let page = self.store.outbox_page(OutboxPlace::default()).await?;
        if page.has_old {
            match self.store.carry_over(&self.lease).await? {
                CarriedOver::Events(events) => {
                    tracing::info!(events, "events of an older version moved to the outbox");
                    return Ok(Begun::CarriedOver);
                }
                CarriedOver::LeaseLost => return Ok(Begun::LeaseLost),
                CarriedOver::Nothing => {}
            }
        }
        let known = page.events.iter().all(|event| event.tried);
        if !known && self.store.try_outbox(&self.lease, &page).await? == Concluded::LeaseLost {
            return Ok(Begun::LeaseLost);
        }
        Ok(Begun::Page(page))
    }

    /// Publishes events, reads the next page meanwhile, and records what became of the events.
    /// Returns how many were published, or `None` if the lease was lost.
    async fn publish_page(
        &mut self,
        events: Vec<OutboxEvent>,
        mut batch: Batch,
        next: Option<OutboxPlace>,
        stop: &CancellationToken,
    ) -> Result<Option<usize>, Error> {
        let broker = self.publisher();
        let publishing = broker.publish(&mut batch, &mut self.subjects, stop);
        let reading = async {
            match next {
                Some(place) => self.store.outbox_page(place).await.map(Some),
                None => Ok(None),
            }
        };
        let (round, next) = tokio::join!(publishing, reading);
        crash::point("relay:published");
        let duplicates = unexpected(&events, &round);
        let fault = self.find_fault(round).await;
        // After a fault, the pass starts again.
        let next = next?.filter(|_| fault.is_none());
        let fates = batch.fates(&self.subjects);
        note(&events, &fates, &self.store);
        let is_aside = |fate: &Fate| matches!(fate, Fate::SetAside { .. });
        let any_aside = fates.iter().any(is_aside);
        let events = Arc::new(events);
        let concluded = self
            .store
            .conclude_outbox(&self.lease, events, fates, next.as_ref())
            .await?;
        if concluded == Concluded::LeaseLost {
            return Ok(None);
        }
        self.any_aside |= any_aside;
        self.page = next;
        let published = count(&batch);
        warn_of(&duplicates);
        match fault {
            None => Ok(Some(published)),
            Some(fault) => Err(fault.into()),
        }
    }

    /// Continues the walk through the events that are set aside, if it is time. Returns how many
    /// were published, or `None` if the lease was lost.
    async fn try_set_aside(&mut self, stop: &CancellationToken) -> Result<Option<usize>, Error> {
        if self.walk.is_none() && self.any_aside && self.next_walk <= Instant::now() {
            self.walk = Some(AsidePlace::default());
        }
        let Some(place) = self.walk.take() else {
            return Ok(Some(0));
        };
        self.next_walk = Instant::now() + RETRY_EVERY;
        let (events, next) = self.store.set_aside_page(place).await?;
        let batch = Batch::new(&events, &HashSet::new());
        // The page that was read ahead stays the next one.
        let page = self.page.take();
        let published = self.publish_page(events, batch, None, stop).await?;
        self.page = page;
        self.walk = next;
        if self.walk.is_none() {
            self.any_aside = self.store.is_any_set_aside().await?;
        }
        Ok(published)
    }

    /// Those orders of these events that have an event set aside.
    async fn orders_set_aside(&self, events: &[OutboxEvent]) -> Result<HashSet<String>, Error> {
        if !self.any_aside {
            return Ok(HashSet::new());
        }
        let orders = events.iter().filter_map(|event| event.order.as_ref());
        let orders: HashSet<String> = orders.map(|(order, _)| order.clone()).collect();
        Ok(self
            .store
            .orders_set_aside(orders.into_iter().collect())
            .await?)
    }

    /// Finds out whether subjects or the stream are at fault: closes the subjects, or returns the
    /// fault of the stream. A missing stream is recreated; one that was changed is left as it
    /// is.
    async fn find_fault(&mut self, round: Round) -> Option<Fault> {
        let Round {
            mut doubts,
            acknowledged,
            ..
        } = round;
        let (_, first) = doubts.first_key_value()?;
        tracing::debug!(
            error = %chain(first),
            "order events not acknowledged; the outbound stream is checked"
        );
        let refused = doubts
            .values()
            .all(|fault| matches!(fault, Fault::Refused(_)));
        let is_fine = match self.topology.mend_outbound().await {
            // If several subjects are refused and none is accepted, the stream is at fault: it may be full.
            Ok(false) => acknowledged || doubts.len() == 1 || !refused,
            Ok(true) => {
                tracing::error!(
                    stream.name = self.topology.outbound_stream(),
                    "outbound stream missing and recreated; `orderd republish` publishes again what it held"
                );
                false
            }
            Err(error) => {
                tracing::error!(
                    error = %chain(&error),
                    "outbound stream not usable; order events are kept"
                );
                false
            }
        };
        if !is_fine {
            return doubts.pop_first().map(|(_, fault)| fault);
        }
        for (token, fault) in doubts {
            publish::close(&mut self.subjects, token, chain(&fault));
        }
        None
    }
}

/// How a pass begins.
enum Begun {
    Page(OutboxPage),
    CarriedOver,
    LeaseLost,
}
