//! The statements that read orders across: the list, and who moved meanwhile.

use crate::conn::Sql;

/// Orders from `($1, $2)`, which is left out, to before `$3`, oldest first.
pub(crate) const ORDERS_LIST: Sql = Sql::both(
    "
    SELECT order_id, status, amount, currency, version, pay_by, created_at, updated_at,
           paid_provider, paid_transaction_id
      FROM orders
     WHERE (created_at, order_id) > ($1, $2)
       AND created_at < $3
     ORDER BY created_at, order_id
     LIMIT $4",
);

/// The same, but only `$4` orders are looked at, and of those only the ones in status `$5` are
/// returned, and the last one if it is the `$4`th: where the next look begins. No index leads to
/// a status: it would have to be written by every payment.
pub(crate) const ORDERS_IN_STATUS: Sql = Sql::both(
    "
    SELECT order_id, status, amount, currency, version, pay_by, created_at, updated_at,
           paid_provider, paid_transaction_id, place
      FROM (SELECT order_id, status, amount, currency, version, pay_by, created_at, updated_at,
                   paid_provider, paid_transaction_id,
                   row_number() OVER (ORDER BY created_at, order_id) AS place
              FROM (SELECT order_id, status, amount, currency, version, pay_by, created_at,
                           updated_at, paid_provider, paid_transaction_id
                      FROM orders
                     WHERE (created_at, order_id) > ($1, $2)
                       AND created_at < $3
                     ORDER BY created_at, order_id
                     LIMIT $4) AS looked_at) AS numbered
     WHERE status = $5 OR place = $4
     ORDER BY created_at, order_id
     LIMIT $6",
);

/// The versions of these orders.
pub(crate) const ORDER_VERSIONS: Sql = Sql {
    postgres: "SELECT order_id, version FROM orders WHERE order_id = ANY($1)",
    sqlite: "
        SELECT order_id, version FROM orders
         WHERE order_id IN (SELECT value FROM json_each($1))",
};

/// Every statement, by name, for the test that prepares them all.
#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = &[
    ("ORDERS_LIST", ORDERS_LIST),
    ("ORDERS_IN_STATUS", ORDERS_IN_STATUS),
    ("ORDER_VERSIONS", ORDER_VERSIONS),
];
