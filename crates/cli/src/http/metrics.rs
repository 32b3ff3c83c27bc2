//! `GET /metrics`: Prometheus text.

use std::fmt::Write;

use lakeward_core::metrics::{Metric, MetricKey};

use super::shape::Status;
use super::status::status_of;
use crate::job::Running;

pub fn text(running: &Running) -> String {
    let mut out = String::new();
    of_status(&status_of(running), &mut out);
    let mut last = String::new();
    for (key, metric) in running.metrics.snapshot() {
        let (kind, value) = match &metric {
            Metric::Counter(counter) => ("counter", counter.get().to_string()),
            Metric::Gauge(gauge) => ("gauge", gauge.get().to_string()),
        };
        if key.name != last {
            let _ = writeln!(out, "# TYPE lakeward_{} {kind}", key.name);
            last.clone_from(&key.name);
        }
        let _ = writeln!(out, "lakeward_{}{} {value}", key.name, labels(&key));
    }
    out
}

fn of_status(status: &Status, out: &mut String) {
    let mut gauge = |name: &str, help: &str, value: Option<i64>| {
        if let Some(value) = value {
            let _ = writeln!(
                out,
                "# HELP lakeward_{name} {help}\n# TYPE lakeward_{name} gauge\nlakeward_{name} {value}"
            );
        }
    };
    let signed = |value: u64| Some(i64::try_from(value).unwrap_or(i64::MAX));
    gauge("lag_ms", "How far the lake is behind the source.", status.lag_ms);
    gauge(
        "commit_stalled_ms",
        "How long a completed checkpoint has been waiting for its commit, once that is unusual.",
        Some(status.commit_stalled_ms.unwrap_or(0)),
    );
    gauge("attempt", "The attempt that runs.", signed(status.attempt));
    gauge("start_time_ms", "When the process began.", Some(status.started_ms));
    let checkpoint = status.checkpoint.as_ref();
    let completed_ms = checkpoint.map(|c| c.completed_ms);
    gauge("checkpoint_completed_time_ms", "When the last checkpoint was complete.", completed_ms);
    let duration_ms = checkpoint.and_then(|c| signed(c.duration_ms));
    gauge("checkpoint_duration_ms", "How long the last checkpoint took.", duration_ms);
    let size = checkpoint.and_then(|c| signed(c.size_bytes));
    gauge("checkpoint_size_bytes", "The size of the last checkpoint.", size);
    let committed_ms = status.committed.as_ref().map(|c| c.at_ms);
    gauge("committed_time_ms", "When the last epoch became visible.", committed_ms);
    let paused = status.tables.iter().filter(|t| t.state == "paused").count();
    gauge("tables_paused", "Tables that are left out.", signed(paused as u64));
    let _ = writeln!(
        out,
        "# TYPE lakeward_state gauge\nlakeward_state{{state=\"{}\"}} 1",
        status.state
    );
    let counters =
        [("restarts_total", status.restarts), ("rows_committed_total", status.rows_committed)];
    for (name, value) in counters {
        let _ = writeln!(out, "# TYPE lakeward_{name} counter\nlakeward_{name} {value}");
    }
}

fn labels(key: &MetricKey) -> String {
    if key.labels.is_empty() {
        return String::new();
    }
    let labels = key.labels.iter().map(|(name, value)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    });
    format!("{{{}}}", labels.collect::<Vec<_>>().join(","))
}
