-- What can be checked about a row without reading another one. NOT VALID: rows that are damaged already stay as
-- they are (`orderd audit` names them), so that this never fails and takes no longer with a large table; every new
-- row, and every update of one, has to hold.
--
-- `orders`, `payments` and `transitions` are written by each payment: there only lengths, cases, short lists and
-- times are compared. A regular expression costs as much as the rest of a row; it is for the other tables.

ALTER TABLE orders
    ADD CONSTRAINT orders_id_length        CHECK (octet_length(order_id) BETWEEN 1 AND 64) NOT VALID,
    ADD CONSTRAINT orders_currency_form    CHECK (octet_length(currency) = 3 AND currency = upper(currency)) NOT VALID,
    ADD CONSTRAINT orders_paid_by_length   CHECK (octet_length(paid_provider) BETWEEN 1 AND 32
                                              AND octet_length(paid_transaction_id) BETWEEN 1 AND 64) NOT VALID,
    ADD CONSTRAINT orders_times_known      CHECK (
        pay_by     >= '0001-01-01 00:00:00Z BC' AND pay_by     < '10000-01-01 00:00:00Z' AND
        created_at >= '0001-01-01 00:00:00Z BC' AND created_at < '10000-01-01 00:00:00Z' AND
        updated_at >= '0001-01-01 00:00:00Z BC' AND updated_at < '10000-01-01 00:00:00Z') NOT VALID;

ALTER TABLE payments
    ADD CONSTRAINT payments_id_lengths     CHECK (octet_length(provider) BETWEEN 1 AND 32
                                              AND octet_length(transaction_id) BETWEEN 1 AND 64
                                              AND octet_length(kind) BETWEEN 1 AND 32
                                              AND octet_length(order_id) BETWEEN 1 AND 64
                                              AND octet_length(event_id) BETWEEN 1 AND 64) NOT VALID,
    ADD CONSTRAINT payments_currency_form  CHECK (octet_length(currency) = 3 AND currency = upper(currency)) NOT VALID,
    ADD CONSTRAINT payments_times_known    CHECK (
        occurred_at >= '0001-01-01 00:00:00Z BC' AND occurred_at < '10000-01-01 00:00:00Z' AND
        received_at >= '0001-01-01 00:00:00Z BC' AND received_at < '10000-01-01 00:00:00Z') NOT VALID;

ALTER TABLE transitions
    ADD CONSTRAINT transitions_event_known  CHECK (event IN ('create', 'pay', 'ship', 'complete', 'cancel')) NOT VALID,
    ADD CONSTRAINT transitions_source_known CHECK (source IN ('event', 'reconciliation', 'api')) NOT VALID,
    ADD CONSTRAINT transitions_status_known CHECK (
        to_status IN ('NOT_PAID', 'PAID', 'SHIPPED', 'DONE', 'CANCELLED') AND
        from_status IN ('NOT_PAID', 'PAID', 'SHIPPED', 'DONE', 'CANCELLED')) NOT VALID,
    ADD CONSTRAINT transitions_time_known   CHECK (
        at >= '0001-01-01 00:00:00Z BC' AND at < '10000-01-01 00:00:00Z') NOT VALID;

ALTER TABLE refusals
    ADD CONSTRAINT refusals_version_grows CHECK (version >= 1) NOT VALID,
    ADD CONSTRAINT refusals_event_known   CHECK (event IN ('create', 'pay', 'ship', 'complete', 'cancel')) NOT VALID,
    ADD CONSTRAINT refusals_source_known  CHECK (source IN ('event', 'reconciliation', 'api')) NOT VALID,
    ADD CONSTRAINT refusals_id_forms      CHECK (
        order_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$' AND
        provider ~ '^[a-z0-9_-]{0,32}$' AND
        transaction_id ~ '^([A-Za-z0-9][A-Za-z0-9._:-]{0,63})?$') NOT VALID,
    ADD CONSTRAINT refusals_time_known    CHECK (
        at >= '0001-01-01 00:00:00Z BC' AND at < '10000-01-01 00:00:00Z') NOT VALID;

ALTER TABLE payment_exceptions
    ADD CONSTRAINT payment_exceptions_verdict_known CHECK (verdict IN (
        'NOT_LIVE', 'CONFLICTING_CONTENT', 'REVERSED', 'WAITING_FOR_ORDER', 'SECOND_PAYMENT',
        'PAID_AFTER_CANCEL', 'CURRENCY_MISMATCH', 'AMOUNT_MISMATCH')) NOT VALID,
    ADD CONSTRAINT payment_exceptions_resolution_known CHECK (resolution IN (
        'refunded', 'accepted', 'written_off', 'settled')) NOT VALID,
    ADD CONSTRAINT payment_exceptions_id_forms CHECK (
        provider ~ '^[a-z0-9_-]{1,32}$' AND
        kind ~ '^[a-z0-9._-]{1,32}$' AND
        transaction_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$' AND
        order_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$' AND
        event_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$' AND
        expected_order_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$') NOT VALID,
    ADD CONSTRAINT payment_exceptions_money_forms CHECK (
        amount BETWEEN 1 AND 9007199254740991 AND
        expected_amount BETWEEN 1 AND 9007199254740991 AND
        currency ~ '^[A-Z]{3}$' AND
        expected_currency ~ '^[A-Z]{3}$') NOT VALID,
    ADD CONSTRAINT payment_exceptions_times_known CHECK (
        occurred_at >= '0001-01-01 00:00:00Z BC' AND occurred_at < '10000-01-01 00:00:00Z' AND
        opened_at   >= '0001-01-01 00:00:00Z BC' AND opened_at   < '10000-01-01 00:00:00Z' AND
        closed_at   >= '0001-01-01 00:00:00Z BC' AND closed_at   < '10000-01-01 00:00:00Z' AND
        pay_by      >= '0001-01-01 00:00:00Z BC' AND pay_by      < '10000-01-01 00:00:00Z') NOT VALID;

ALTER TABLE dead_letters
    ADD CONSTRAINT dead_letters_reason_known CHECK (reason IN (
        'invalid-utf8', 'invalid-json', 'duplicate-key', 'missing-field', 'wrong-type', 'invalid-id',
        'invalid-provider', 'invalid-amount', 'invalid-currency', 'invalid-time', 'provider-mismatch',
        'unsupported-type', 'too-large', 'refused-by-database')) NOT VALID,
    ADD CONSTRAINT dead_letters_time_known  CHECK (
        received_at >= '0001-01-01 00:00:00Z BC' AND received_at < '10000-01-01 00:00:00Z') NOT VALID;

-- `checks` is written with each order; it is left with what is cheap.
ALTER TABLE checks
    ADD CONSTRAINT checks_id_length    CHECK (octet_length(order_id) BETWEEN 1 AND 64) NOT VALID,
    ADD CONSTRAINT checks_counts_range CHECK (pause_ms >= 0 AND unknowns >= 0) NOT VALID,
    ADD CONSTRAINT checks_times_known  CHECK (
        next_check_at >= '0001-01-01 00:00:00Z BC' AND next_check_at < '10000-01-01 00:00:00Z' AND
        ask_at        >= '0001-01-01 00:00:00Z BC' AND ask_at        < '10000-01-01 00:00:00Z') NOT VALID;

ALTER TABLE runs
    ADD CONSTRAINT runs_counts_range CHECK (
        asked >= 0 AND healed >= 0 AND cancelled >= 0 AND pending >= 0 AND unknown >= 0 AND raced >= 0 AND
        settled >= 0) NOT VALID,
    ADD CONSTRAINT runs_times_known  CHECK (
        started_at  >= '0001-01-01 00:00:00Z BC' AND started_at  < '10000-01-01 00:00:00Z' AND
        finished_at >= '0001-01-01 00:00:00Z BC' AND finished_at < '10000-01-01 00:00:00Z') NOT VALID;

ALTER TABLE run_findings
    ADD CONSTRAINT run_findings_id_form CHECK (order_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$') NOT VALID;
