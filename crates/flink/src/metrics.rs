//! Metrics as lines of `name=value`, for Flink's gauges.

use std::fmt::Write;

use lakeward_core::MetricGroup;
use lakeward_core::metrics::Metric;

/// One line for each metric; the labels' values are parts of the name.
pub(crate) fn lines(metrics: &MetricGroup) -> String {
    let mut lines = String::new();
    for (key, metric) in metrics.snapshot() {
        let mut name = key.name;
        for (_, value) in key.labels {
            name.push('.');
            let safe =
                |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
            name.extend(value.chars().map(safe));
        }
        let _ = match metric {
            Metric::Counter(counter) => writeln!(lines, "{name}={}", counter.get()),
            Metric::Gauge(gauge) => writeln!(lines, "{name}={}", gauge.get()),
        };
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_parts_of_the_name() {
        let metrics = MetricGroup::default();
        metrics.counter("rows").add(3);
        metrics.with("table", "a.b c").gauge("lag_ms").set(-1);
        assert_eq!(lines(&metrics), "lag_ms.a.b_c=-1\nrows=3\n");
    }
}
