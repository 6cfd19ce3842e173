//! Reads an order by its id, together with those that others ask for at the moment (`gets`).

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use order_fsm::OrderId;

use crate::call::joined;
use crate::error::{Error, doing};
use crate::gets::{Asked, Failed, Place, Turn};
use crate::orders::{self, Order};
use crate::rows::sort_out;
use crate::store::Store;

impl Store {
    /// The order as it is committed.
    pub async fn get_order(&self, order_id: OrderId) -> Result<Option<Order>, Error> {
        let (place, turn) = self.gets.ask(order_id.clone());
        let answer = match turn {
            None => self.wait_in_line(place).await,
            Some(turn) => {
                // It goes on for others when this caller has its answer, or is gone.
                let batches = Box::pin(self.clone().read_batches(turn));
                let batches = joined(async move {
                    batches.await;
                    Ok(())
                });
                let mut answer = place.answer;
                tokio::select! {
                    biased;
                    answer = &mut answer => answer.ok(),
                    _ = batches => answer.await.ok(),
                }
            }
        };
        match answer {
            Some(Ok(order)) => Ok(order),
            Some(Err(Failed::NoConnection)) => {
                self.acquire_timeouts.fetch_add(1, Ordering::Relaxed);
                Err(doing("waiting for a connection")(sqlx::Error::PoolTimedOut))
            }
            Some(Err(Failed::TooLate(bound))) => Err(Error::Deadline(bound)),
            None => self.get_one(order_id).await,
        }
    }

    /// Waits to be read by another caller's turn; no longer than for a connection, until its batch is sent.
    async fn wait_in_line(&self, mut place: Place) -> Option<Result<Option<Order>, Failed>> {
        let patience = self.options.acquire_timeout;
        match tokio::time::timeout(patience, &mut place.answer).await {
            Ok(answer) => answer.ok(),
            Err(_) if self.gets.give_up(place.number) => Some(Err(Failed::NoConnection)),
            Err(_) => place.answer.await.ok(),
        }
    }

    async fn read_batches(self, mut turn: Turn) {
        while let Some(batch) = turn.next() {
            match self.read_batch(&batch).await {
                Ok((orders, all_readable)) => {
                    for asked in batch {
                        let order = orders.get(asked.order_id.as_str());
                        // It may be the one that can't be read: without an answer its caller reads for itself.
                        if order.is_some() || all_readable {
                            asked.answer(Ok(order.cloned()));
                        }
                    }
                }
                Err(error) => {
                    tracing::debug!(error = %error, orders = batch.len(), "reading orders together failed");
                    if let Some(failed) = Failed::of(&error) {
                        for asked in batch {
                            asked.answer(Err(failed));
                        }
                    }
                }
            }
        }
    }

    /// The readable orders of a batch, and whether there were only such ones.
    async fn read_batch(&self, batch: &[Asked]) -> Result<(HashMap<String, Order>, bool), Error> {
        let ids = batch.iter().map(|asked| asked.order_id.to_string());
        let rows = self.read("reading orders", (ids.collect(),), orders::get_each);
        let (read, unreadable) = sort_out(rows.await?);
        let read = read
            .into_iter()
            .map(|order| (order.order_id.to_string(), order));
        Ok((read.collect(), unreadable.is_empty()))
    }

    async fn get_one(&self, order_id: OrderId) -> Result<Option<Order>, Error> {
        let rows = self.read("reading an order", order_id, orders::get);
        self.only(rows.await?)
    }
}
