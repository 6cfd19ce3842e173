//! Logs to standard error, metrics to memory.

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::LogFormat;

/// Starts logging. Called once, by `main`.
pub fn log(filter: EnvFilter, format: LogFormat) {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => {
            use std::io::IsTerminal as _;
            let builder = builder.with_ansi(std::io::stderr().is_terminal());
            builder.finish().with(filter_fn(is_fit_for_logs)).init();
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true);
            builder.finish().with(filter_fn(is_fit_for_logs)).init();
        }
    }
}

/// Whatever is asked for: below INFO the client of the broker tells the passwords in its servers'
/// URLs, and what it sends.
fn is_fit_for_logs(line: &Metadata<'_>) -> bool {
    *line.level() <= Level::INFO || !line.target().starts_with("async_nats")
}

/// Starts the recorder of metrics, once in a process; a second call gets the same.
pub fn metrics() -> PrometheusHandle {
    static HANDLE: std::sync::OnceLock<PrometheusHandle> = std::sync::OnceLock::new();
    HANDLE
        .get_or_init(|| {
            let seconds = [
                0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
            ];
            let delay = [
                0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 10.0, 60.0, 3600.0,
            ];
            let sizes = [
                1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2000.0,
            ];
            let buckets = |builder: PrometheusBuilder, name: &str, values: &[f64]| {
                builder
                    .set_buckets_for_metric(Matcher::Full(name.to_owned()), values)
                    .expect("the buckets are not empty")
            };
            let builder = PrometheusBuilder::new();
            let builder = buckets(builder, "orderd_http_request_seconds", &seconds);
            let builder = buckets(builder, "orderd_commit_delay_seconds", &delay);
            let builder = buckets(builder, "orderd_batch_size", &sizes);
            builder
                .install_recorder()
                .expect("no other recorder is installed in this process")
        })
        .clone()
}

/// An error with its causes, for a log line.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
