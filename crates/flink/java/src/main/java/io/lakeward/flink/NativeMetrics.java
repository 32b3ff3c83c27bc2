package io.lakeward.flink;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.MetricGroup;

/** The numbers of one operator instance as gauges of Flink, each registered when first seen. */
final class NativeMetrics {
    private static final long INTERVAL_NANOS = 2_000_000_000;

    private final MetricGroup group;
    private final Map<String, AtomicLong> gauges = new HashMap<>();
    private long takenAtNanos = System.nanoTime() - INTERVAL_NANOS;

    NativeMetrics(MetricGroup operator) {
        group = operator.addGroup("lakeward");
    }

    boolean isDue() {
        return System.nanoTime() - takenAtNanos >= INTERVAL_NANOS;
    }

    void take(byte[] lines) {
        takenAtNanos = System.nanoTime();
        KeyValues.read(lines).forEach((name, value) -> gauge(name).set(Long.parseLong(value)));
    }

    private AtomicLong gauge(String name) {
        return gauges.computeIfAbsent(
                name,
                absent -> {
                    AtomicLong number = new AtomicLong();
                    group.gauge(name, (Gauge<Long>) number::get);
                    return number;
                });
    }
}
