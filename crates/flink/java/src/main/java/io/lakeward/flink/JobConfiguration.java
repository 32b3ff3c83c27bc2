package io.lakeward.flink;

import java.util.HashMap;
import java.util.Map;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** How a job is checkpointed and restarted: what the pipeline says, over what the cluster says. */
final class JobConfiguration {
    private static final String CHECKPOINTING = "execution.checkpointing.";
    private static final String TOLERATED = CHECKPOINTING + "tolerable-failed-checkpoints";
    private static final String RESTART = "restart-strategy.";

    private final Map<String, String> options = new HashMap<>();

    private JobConfiguration() {}

    static void apply(KeyValues plan, StreamExecutionEnvironment job) {
        refuseWhatCannotWork(job.getConfiguration());
        JobConfiguration chosen = new JobConfiguration();
        chosen.checkpoints(plan, job.getConfiguration());
        chosen.restarts(plan);
        job.configure(Configuration.fromMap(chosen.options));
        job.setRuntimeMode(RuntimeExecutionMode.STREAMING);
        if (!job.getCheckpointConfig().isCheckpointingEnabled()) {
            throw new IllegalArgumentException(
                    "there is no checkpoint interval: set it in the pipeline, or as"
                            + " execution.checkpointing.interval of the cluster");
        }
    }

    private static void refuseWhatCannotWork(ReadableConfig cluster) {
        if (cluster.get(CheckpointingOptions.ENABLE_UNALIGNED)) {
            throw new IllegalArgumentException(
                    "execution.checkpointing.unaligned.enabled is set, but there are no unaligned"
                            + " checkpoints for streams whose records have an address; unset it");
        }
        if (text(cluster, "jobmanager.scheduler").equalsIgnoreCase("adaptive")
                || text(cluster, "scheduler-mode").equalsIgnoreCase("reactive")) {
            throw new IllegalArgumentException(
                    "the adaptive scheduler changes parallelism on its own, which a pipeline cannot"
                            + " follow; please set jobmanager.scheduler: default");
        }
    }

    private void checkpoints(KeyValues plan, ReadableConfig cluster) {
        options.put(CHECKPOINTING + "mode", "EXACTLY_ONCE");
        options.put(CHECKPOINTING + "max-concurrent-checkpoints", "1");
        options.put(CHECKPOINTING + "externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        // Without it, byte arrays of operator state are restored byte by byte.
        options.put(CHECKPOINTING + "snapshot-compression", "true");
        options.put("execution.buffer-timeout.interval", "5 ms");
        milliseconds(CHECKPOINTING + "interval", plan, "checkpoint.interval.ms");
        if (text(cluster, TOLERATED).isEmpty()) {
            // The next one carries what a failed one should have. At the end of the input, those
            // fail that meet a stage of which only some instances have ended.
            options.put(TOLERATED, "10");
        }
    }

    private void restarts(KeyValues plan) {
        String type = plan.get("restart.type");
        if (type.isEmpty()) {
            return;
        }
        options.put(RESTART + "type", type);
        if (type.equals("exponential-delay")) {
            String prefix = RESTART + "exponential-delay.";
            milliseconds(prefix + "initial-backoff", plan, "restart.initial.ms");
            milliseconds(prefix + "max-backoff", plan, "restart.max.ms");
            milliseconds(prefix + "reset-backoff-threshold", plan, "restart.reset.ms");
            option(prefix + "backoff-multiplier", plan.get("restart.factor"));
            option(prefix + "jitter-factor", plan.get("restart.jitter"));
        } else if (type.equals("fixed-delay")) {
            milliseconds(RESTART + "fixed-delay.delay", plan, "restart.delay.ms");
            option(RESTART + "fixed-delay.attempts", plan.get("restart.attempts"));
        }
    }

    private void milliseconds(String key, KeyValues plan, String name) {
        String number = plan.get(name);
        option(key, number.isEmpty() ? "" : number + " ms");
    }

    private void option(String key, String value) {
        if (!value.isEmpty()) {
            options.put(key, value);
        }
    }

    private static String text(ReadableConfig cluster, String key) {
        return cluster.get(ConfigOptions.key(key).stringType().defaultValue(""));
    }
}
