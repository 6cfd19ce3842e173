//! Logs to standard error, metrics to memory.

mod output;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::LogFormat;

/// How long the end of the process waits until its last lines are written.
const FLUSH: Duration = Duration::from_millis(400);

/// Starts logging. Called once, by `main`.
pub fn log(filter: EnvFilter, format: LogFormat) {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // They would be printed to standard error, which panics if it is closed.
        .log_internal_errors(false)
        .with_writer(output::standard_error().clone());
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
    std::panic::set_hook(Box::new(log_panic));
}

/// Writes to standard error, outside of the log. It neither fails nor waits for a reader.
pub fn say(text: &str) {
    output::standard_error().say(text.as_bytes());
}

/// Waits until all output is written, for 400 ms at most. Call it before the process ends.
pub fn flush() {
    output::standard_error().flush(FLUSH);
}

/// Logs panics: the default hook would block if standard error isn't read.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let text = panic_text(panic.payload());
    let place = panic.location().map(ToString::to_string);
    let place = place.as_deref().unwrap_or("an unknown place");
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    let backtrace = Backtrace::capture();
    let backtrace =
        (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    if tracing::enabled!(Level::ERROR) {
        tracing::error!(panic = text, place, thread, backtrace, "thread panicked");
    } else {
        say(&format!(
            "orderd: thread {thread} panicked at {place}: {text}\n"
        ));
    }
}

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("not a text")
}

/// Describes the metrics of the log.
pub fn describe_metrics() {
    output::describe_metrics();
}

/// Leaves out what async-nats logs below INFO, whatever the filter says: it contains the bodies of messages.
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
