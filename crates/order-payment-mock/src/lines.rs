//! A script as a file with one JSON object a line.
//!
//! - `{"order_id":"OD-1","state":"paid","provider":"acme","transaction_id":"tx-1","amount":1000,"currency":"EUR"}` is an
//!   entry. An id that ends with `*` stands for all orders that start so. Several lines about one order are several entries.
//! - `{"order_id":"OD-2","state":"absent"}` leaves an order out; `{"order_id":"OD-2","raw":"{}"}` puts a text in place of
//!   an entry.
//! - `{"fault":"slow=2s"}` is a fault of every reply; with `"every":10` of each tenth, with `"times":3` of the next three,
//!   with `"order_id":"OD-3"` of the replies to questions that name that order, with `"above":1` of the replies to questions
//!   with more than one order.
//! - `{"limit":20}` is a limit per second.

use serde::Deserialize;

use super::{Answer, Fault, Payment, Script};

/// A line that isn't part of a script.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct LineError {
    /// The number of the line, from 1.
    pub line: usize,
    /// What is wrong with the line.
    pub what: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    order_id: Option<String>,
    state: Option<String>,
    provider: Option<String>,
    transaction_id: Option<String>,
    amount: Option<u64>,
    currency: Option<String>,
    occurred_at: Option<String>,
    #[serde(rename = "final")]
    is_final: Option<bool>,
    raw: Option<String>,
    fault: Option<String>,
    above: Option<usize>,
    every: Option<u64>,
    times: Option<u32>,
    limit: Option<u32>,
}

impl Script {
    /// Reads a script; empty lines are skipped.
    pub fn read(text: &str) -> Result<Self, LineError> {
        let mut script = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            if !line.trim().is_empty() {
                script
                    .add_line(line)
                    .map_err(|what| LineError { line: number, what })?;
            }
        }
        Ok(script)
    }

    /// Adds what one line says.
    pub fn add_line(&mut self, line: &str) -> Result<(), String> {
        let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
        match line {
            Line {
                limit: Some(limit), ..
            } => self.limit(limit),
            Line {
                fault: Some(ref fault),
                ..
            } => self.add_fault(fault.parse()?, &line),
            Line {
                order_id: Some(ref id),
                ..
            } => match id.strip_suffix('*') {
                Some(start) => self.add_start(start, line.answer()?),
                None => self.add(id, line.answer()?),
            },
            _ => return Err("no order_id, fault or limit; a line needs one of them".to_owned()),
        }
        Ok(())
    }

    fn add_fault(&mut self, fault: Fault, line: &Line) {
        match line {
            Line {
                order_id: Some(id), ..
            } => self.poison(id, fault),
            Line {
                above: Some(orders),
                ..
            } => self.above(*orders, fault),
            Line {
                every: Some(nth), ..
            } => self.every(*nth, fault),
            Line {
                times: Some(times), ..
            } => {
                for _ in 0..*times {
                    self.next(fault.clone());
                }
            }
            _ => self.always(fault),
        }
    }
}

impl Line {
    fn answer(&self) -> Result<Answer, String> {
        if let Some(text) = &self.raw {
            return Ok(Answer::raw(text));
        }
        match self.state.as_deref() {
            Some("paid") => Ok(Answer::paid(self.payment()?)),
            Some("refunded") => Ok(Answer::refunded(self.payment()?)),
            Some("unpaid") if self.is_final == Some(true) => Ok(Answer::unpaid_for_good()),
            Some("unpaid") => Ok(Answer::unpaid()),
            Some("pending") => Ok(Answer::pending()),
            Some("unknown") => Ok(Answer::unknown()),
            Some("absent") => Ok(Answer::absent()),
            Some("unreadable") => Ok(Answer::unreadable()),
            other => Err(format!(
                "{other:?} is not a state; use paid, refunded, unpaid, pending, unknown, absent or unreadable"
            )),
        }
    }

    fn payment(&self) -> Result<Payment, String> {
        let or =
            |field: &Option<String>, default: &str| field.as_deref().unwrap_or(default).to_owned();
        let mut payment = Payment::new(
            &or(&self.provider, "acme"),
            &or(&self.transaction_id, "t-{order_id}"),
            self.amount.ok_or("a payment without an amount; add one")?,
            &or(&self.currency, "EUR"),
        );
        if let Some(at) = &self.occurred_at {
            payment.occurred_at.clone_from(at);
        }
        Ok(payment)
    }
}
