//! The table of settings: flags, variables, file keys and `docs/settings.md` come from here.

/// A setting as users see it.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The heading it stands under, in the help and in `docs/settings.md`.
    pub group: &'static str,
    /// The environment variable.
    pub env: &'static str,
    /// The flag, without dashes in front; with underscores it is the key of the TOML file.
    pub flag: &'static str,
    /// The value if the setting isn't given; empty means that there is no default.
    pub default: &'static str,
    /// What it is for, in Markdown.
    pub help: &'static str,
}

macro_rules! settings {
    ($($group:literal { $($env:literal $flag:literal $default:literal $help:literal)* })*) => {
        /// Every setting.
        pub const SETTINGS: &[Setting] = &[$($(
            Setting { group: $group, env: $env, flag: $flag, default: $default, help: $help },
        )*)*];
    };
}

settings! {
    "Database and NATS" {
        "DATABASE_URL" "database-url" "sqlite://orderd.db" "`sqlite://<file>` or `postgres://<user>@<host>/<database>`"
        "NATS_URL" "nats-url" "nats://127.0.0.1:4222" "NATS servers, separated by commas; `tls://` for TLS, `user:password@` or `token@` before the host"
        "NATS_CREDS" "nats-creds" "" "Credentials file; read again at every connect"
        "NATS_CA" "nats-ca" "" "File with the root certificates that the servers' certificates are checked against"
        "NATS_CERT" "nats-cert" "" "Client certificate; needs `NATS_KEY`"
        "NATS_KEY" "nats-key" "" "Private key of the client certificate"
        "ORDERD_STREAM_REPLICAS" "stream-replicas" "1" "Replicas of the streams and of the durable consumer that are created; an existing stream with fewer is warned about"
    }
    "HTTP" {
        "ORDERD_HTTP_ADDR" "http-addr" "127.0.0.1:8080" "Address and port of the HTTP server; an address that isn't loopback needs a tokens file"
        "ORDERD_TOKENS_FILE" "tokens-file" "" "File with the tokens that may call the API; read again when it changes. Without it, every caller is allowed"
        "ORDERD_RATE_LIMIT" "rate-limit" "off" "Requests per second that each token may send to `/v1` and to the console, or `off`"
        "ORDERD_CONSOLE" "console" "on" "Pages for people under `/console`; `off`: there are none"
    }
    "Payment events" {
        "ORDERD_INBOUND_STREAM" "inbound-stream" "PAYMENTS" "Stream that payment events are consumed from; created if it is missing"
        "ORDERD_INBOUND_SUBJECT" "inbound-subject" "payments.events" "Subject of payment events, without `.<provider>`"
        "ORDERD_CONSUMER" "consumer" "orderd" "Durable consumer, shared by all instances"
        "ORDERD_LIVEMODE" "livemode" "true" "`true`: events of real money count; `false`: those of test money. The others get the verdict `NOT_LIVE`"
        "ORDERD_WAIT_FOR_ORDER" "wait-for-order" "24h" "How long a payment waits for its order before it becomes a payment exception"
    }
    "Order events" {
        "ORDERD_OUTBOUND_STREAM" "outbound-stream" "ORDERS" "Stream that order events are published to; created if it is missing"
        "ORDERD_OUTBOUND_PREFIX" "outbound-prefix" "orders.events" "Subject of order events, without `.<event>`"
        "ORDERD_RELAY" "relay" "on" "`off` stops publishing; order events are kept until it is `on` again"
    }
    "Orders and reconciliation" {
        "ORDERD_PAY_WITHIN" "pay-within" "30m" "`pay_by` of an order that is created without one, counted from its creation"
        "ORDERD_PAYMENT_QUERY" "payment-query" "none" "Where the payment service is asked about unpaid orders: `nats:<subject>` (a subject that no stream captures), `http(s)://…`, or `none`. With `none`, lost payments aren't found and orders aren't cancelled automatically"
        "ORDERD_CHECK_AFTER" "check-after" "5m" "When the payment service is first asked about an unpaid order, counted from its creation"
        "ORDERD_LAST_CHECK_AFTER" "last-check-after" "24h" "When it is asked for the last time, counted from the order's leaving `NOT_PAID`; or `off`"
        "ORDERD_RECONCILE_EVERY" "reconcile-every" "1m" "How often `serve` reconciles; `off` if a cron job runs `orderd reconcile`"
        "ORDERD_RECONCILE_RATE" "reconcile-rate" "20" "Questions per second to the payment service, by all instances together"
    }
    "Retention and logs" {
        "ORDERD_KEEP" "keep" "90d" "How long closed dead letters, refusals and reconciliation runs are kept. Payments and transitions are kept for ever"
        "ORDERD_LOG" "log" "info" "What is logged, in the syntax of `RUST_LOG`"
        "ORDERD_LOG_FORMAT" "log-format" "text" "`text` or `json`"
    }
}
