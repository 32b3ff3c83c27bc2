import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

import org.apache.doris.flink.catalog.doris.FieldSchema;
import org.apache.doris.flink.cfg.DorisExecutionOptions;
import org.apache.doris.flink.cfg.DorisOptions;
import org.apache.doris.flink.cfg.DorisReadOptions;
import org.apache.doris.flink.sink.DorisSink;
import org.apache.doris.flink.sink.schema.SchemaChangeManager;
import org.apache.doris.flink.sink.writer.serializer.JsonDebeziumSchemaSerializer;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiter;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Apache Flink with Apache Doris' own connector, against the server under test: rounds of changes of a hundred keys, as
 * Debezium events, written with two-phase commit. Once a checkpoint is complete, the job fails and is restored from it.
 *
 * <p>Arguments: frontends, user, password, database.table, number of events.
 */
public final class FlinkDoris {
    private static final int KEYS = 100;

    public static void main(String[] arguments) throws Exception {
        String table = arguments[3];
        long events = Long.parseLong(arguments[4]);
        DorisOptions doris =
                DorisOptions.builder()
                        .setFenodes(arguments[0])
                        .setUsername(arguments[1])
                        .setPassword(arguments[2])
                        .setTableIdentifier(table)
                        .build();
        addColumn(doris, table);
        write(doris, events);
        if (!FailOnce.FAILED.get()) {
            throw new IllegalStateException("the job has not failed on purpose: too few events");
        }
        System.out.println("written");
    }

    /** By the connector's own schema change: a question about light schema change, then a statement, both by HTTP. */
    private static void addColumn(DorisOptions doris, String table) throws Exception {
        String[] parts = table.split("\\.");
        SchemaChangeManager manager = new SchemaChangeManager(doris);
        boolean done =
                manager.addColumn(parts[0], parts[1], new FieldSchema("round", "INT", "added by Flink"));
        if (!done) {
            throw new IllegalStateException("the column was not added");
        }
    }

    private static void write(DorisOptions doris, long events) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("restart-strategy.type", "fixed-delay");
        configuration.setString("restart-strategy.fixed-delay.attempts", "2");
        configuration.setString("restart-strategy.fixed-delay.delay", "100ms");
        StreamExecutionEnvironment flink =
                StreamExecutionEnvironment.createLocalEnvironment(2, configuration);
        flink.enableCheckpointing(400);
        GeneratorFunction<Long, String> event = FlinkDoris::event;
        DataGeneratorSource<String> source =
                new DataGeneratorSource<>(
                        event, events, parallelism -> new SlowUntilFailure(), Types.STRING);
        Properties load = new Properties();
        load.setProperty("format", "json");
        load.setProperty("read_json_by_line", "true");
        DorisExecutionOptions execution =
                DorisExecutionOptions.builder()
                        .setLabelPrefix("flink-" + System.nanoTime())
                        .enable2PC()
                        .setDeletable(true)
                        .setStreamLoadProp(load)
                        .build();
        DorisSink<String> sink =
                DorisSink.<String>builder()
                        .setDorisOptions(doris)
                        .setDorisReadOptions(DorisReadOptions.builder().build())
                        .setDorisExecutionOptions(execution)
                        .setSerializer(
                                JsonDebeziumSchemaSerializer.builder()
                                        .setDorisOptions(doris)
                                        .setExecutionOptions(execution)
                                        .build())
                        .build();
        flink.fromSource(source, WatermarkStrategy.noWatermarks(), "events")
                .setParallelism(1)
                .map(new FailOnce())
                .setParallelism(1)
                .keyBy(FlinkDoris::key)
                .sinkTo(sink);
        flink.execute("doris");
    }

    /** The n-th event: each round writes every key; in the last one, keys that end with 9 are deleted. */
    private static String event(long n) {
        long id = n % KEYS;
        long round = n / KEYS;
        String before = round == 0 ? "null" : row(id, round - 1);
        boolean deletes = id % 10 == 9 && round % 10 == 9;
        String after = deletes ? "null" : row(id, round);
        boolean created = round == 0 || (id % 10 == 9 && round % 10 == 0);
        String op = deletes ? "d" : created ? "c" : "u";
        return "{\"before\":" + before + ",\"after\":" + after
                + ",\"source\":{\"db\":\"shop\",\"table\":\"t\"},\"op\":\"" + op + "\"}";
    }

    private static String row(long id, long round) {
        return "{\"id\":" + id + ",\"v\":\"ü" + id + "\",\"round\":" + round + "}";
    }

    private static String key(String event) {
        int at = event.indexOf("{\"id\":") + 6;
        return event.substring(at, event.indexOf(',', at));
    }

    /** Fails once, after a checkpoint and a few more rows, so that precommitted transactions are left behind. */
    private static final class FailOnce extends RichMapFunction<String, String>
            implements CheckpointListener {
        private static final AtomicBoolean FAILED = new AtomicBoolean();
        private long sinceCheckpoint = -1;

        @Override
        public String map(String event) {
            if (sinceCheckpoint >= 0 && ++sinceCheckpoint > 100 && FAILED.compareAndSet(false, true)) {
                throw new IllegalStateException("on purpose");
            }
            return event;
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            sinceCheckpoint = Math.max(sinceCheckpoint, 0);
        }
    }

    /** About a thousand events a second, then as fast as it goes. */
    private static final class SlowUntilFailure implements RateLimiter {
        @Override
        public CompletionStage<Void> acquire() {
            if (FailOnce.FAILED.get()) {
                return CompletableFuture.completedFuture(null);
            }
            Executor later = CompletableFuture.delayedExecutor(1, TimeUnit.MILLISECONDS);
            return CompletableFuture.runAsync(() -> {}, later);
        }
    }

    private FlinkDoris() {}
}
