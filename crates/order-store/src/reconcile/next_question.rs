//! When the payment service is asked about an order next, for people who look at it.

use order_fsm::OrderId;
use time::OffsetDateTime;

use crate::conn::Conn;
use crate::error::Error;
use crate::rows::{Checked, Stored, from_row};
use crate::run::fetch_all;
use crate::sql;
use crate::store::Store;
use crate::ts::Ts;

/// The next question about an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextQuestion {
    /// When it is due.
    pub at: OffsetDateTime,
    /// How many answers in a row said nothing.
    pub unknowns: i64,
}

impl Store {
    /// The next question about an order, if it is asked about at all any more.
    pub async fn next_question(&self, order_id: OrderId) -> Result<Option<NextQuestion>, Error> {
        let rows = self.read("reading the next question", (order_id,), next);
        self.only(rows.await?)
    }
}

async fn next(
    conn: &mut Conn,
    (order_id,): &(OrderId,),
) -> sqlx::Result<Vec<Checked<NextQuestion>>> {
    fetch_all!(
        conn,
        Checked<NextQuestion>,
        sql::checks::NEXT,
        order_id.as_str()
    )
}

from_row! {
    pub(crate) struct NextRow {
        ask_at: Ts,
        unknowns: i64,
    }
}

impl Stored for NextQuestion {
    type Row = NextRow;
    const TABLE: &'static str = "checks";
    const KEY: &'static [&'static str] = &["order_id"];
}

impl TryFrom<NextRow> for NextQuestion {
    type Error = Error;

    fn try_from(row: NextRow) -> Result<Self, Error> {
        Ok(Self {
            at: row.ask_at.0,
            unknowns: row.unknowns,
        })
    }
}
