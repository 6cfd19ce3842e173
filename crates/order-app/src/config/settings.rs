//! The table of settings.

/// A setting as users see it.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The environment variable.
    pub env: &'static str,
    /// The flag, without dashes in front; with underscores it is the key of the TOML file.
    pub flag: &'static str,
    /// What holds if it is not given; empty: nothing.
    pub default: &'static str,
    /// What it is for.
    pub help: &'static str,
}

macro_rules! settings {
    ($($env:literal $flag:literal $default:literal $help:literal)*) => {
        /// Every setting.
        pub const SETTINGS: &[Setting] =
            &[$(Setting { env: $env, flag: $flag, default: $default, help: $help }),*];
    };
}

settings! {
    "DATABASE_URL" "database-url" "sqlite://orderd.db" "sqlite://<file> or postgres://<user>@<host>/<database>"
    "NATS_URL" "nats-url" "nats://127.0.0.1:4222" "Servers, separated by commas; tls:// for TLS"
    "NATS_CREDS" "nats-creds" "" "A credentials file"
    "NATS_CA" "nats-ca" "" "A file with the root certificates of the servers"
    "NATS_CERT" "nats-cert" "" "A client certificate; needs a key"
    "NATS_KEY" "nats-key" "" "The key of the client certificate"
    "ORDERD_HTTP_ADDR" "http-addr" "127.0.0.1:8080" "Where HTTP is served: a loopback address, or any if there are tokens"
    "ORDERD_TOKENS_FILE" "tokens-file" "" "The file of those who may call the API; read again when it changes"
    "ORDERD_RATE_LIMIT" "rate-limit" "off" "Requests per second and token, or off"
    "ORDERD_INBOUND_STREAM" "inbound-stream" "PAYMENTS" "The stream of payment events"
    "ORDERD_INBOUND_SUBJECT" "inbound-subject" "payments.events" "Their subject, without .<provider>"
    "ORDERD_CONSUMER" "consumer" "orderd" "The durable consumer, shared by all instances"
    "ORDERD_OUTBOUND_STREAM" "outbound-stream" "ORDERS" "The stream of order events"
    "ORDERD_OUTBOUND_PREFIX" "outbound-prefix" "orders.events" "Their subjects, without .<event>"
    "ORDERD_RELAY" "relay" "on" "on or off: whether order events are published; nothing is lost"
    "ORDERD_PAY_WITHIN" "pay-within" "30m" "pay_by of an order without one"
    "ORDERD_CHECK_AFTER" "check-after" "5m" "The first question about an unpaid order"
    "ORDERD_PAYMENT_QUERY" "payment-query" "none" "Who is asked about unpaid orders: nats:<subject>, http(s)://… or none"
    "ORDERD_LAST_CHECK_AFTER" "last-check-after" "24h" "The last question, after an order left NOT_PAID; or off"
    "ORDERD_RECONCILE_EVERY" "reconcile-every" "1m" "How often serve reconciles; or off, for an outside cron"
    "ORDERD_RECONCILE_RATE" "reconcile-rate" "20" "Questions per second to the payment service, of all instances"
    "ORDERD_WAIT_FOR_ORDER" "wait-for-order" "24h" "How long a payment waits for its order before it is an exception"
    "ORDERD_LIVEMODE" "livemode" "true" "Whether events of real money count, or of test money"
    "ORDERD_KEEP" "keep" "90d" "How long closed dead letters, refusals and runs are kept"
    "ORDERD_LOG" "log" "info" "What is logged, as in RUST_LOG"
    "ORDERD_LOG_FORMAT" "log-format" "text" "text or json"
}
