package io.lakeward.flink;

import io.lakeward.flink.nativelib.Native;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.core.memory.ManagedMemoryUseCase;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Makes a Flink job of a pipeline file: the stages and their numbers come from Rust. */
public final class LakewardJob {
    /** A constant: a savepoint cannot be restored with another one. */
    private static final int MAX_PARALLELISM = 1024;

    private static final String WRITER = "DynamicStreamWriter";
    private static final String DEFAULT_SLOTS = "default";
    private static final TypeInformation<byte[]> BYTES =
            PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
    private static final Logger LOG = LoggerFactory.getLogger(LakewardJob.class);

    private final Arguments arguments;
    private final KeyValues plan;
    private final StreamExecutionEnvironment job;
    private final String marksFolder;

    private LakewardJob(Arguments arguments, StreamExecutionEnvironment job) {
        this.arguments = arguments;
        this.job = job;
        plan = KeyValues.read(Native.plan(request().write()));
        marksFolder = chooseMarksFolder();
    }

    public static void main(String[] words) throws Exception {
        Arguments arguments = Arguments.parse(words);
        StreamExecutionEnvironment job = StreamExecutionEnvironment.getExecutionEnvironment();
        LakewardJob pipeline = new LakewardJob(arguments, job);
        pipeline.build();
        LOG.info("Lakeward {}, marks in {}", Native.version(), pipeline.marksFolder);
        job.execute(pipeline.plan.get("name"));
    }

    private KeyValues request() {
        return new KeyValues()
                .with("pipeline", arguments.pipeline)
                .with("file", arguments.file)
                .with("until", arguments.until);
    }

    private KeyValues spec(String operator) {
        return request()
                .with("operator", operator)
                .with("checkpoint.interval.ms", job.getCheckpointConfig().getCheckpointInterval());
    }

    private String chooseMarksFolder() {
        String folder = arguments.marksFolder;
        if (folder == null) {
            folder = plan.get("marks.dir");
        }
        if (folder.isEmpty()) {
            String checkpoints =
                    job.getConfiguration().get(CheckpointingOptions.CHECKPOINTS_DIRECTORY);
            if (checkpoints == null) {
                throw new IllegalArgumentException(
                        "there is no folder for checkpoints: set execution.checkpointing.dir of the"
                                + " cluster to one that all its machines see");
            }
            folder = checkpoints + "/lakeward-marks";
        }
        return folder + "/" + plan.get("name").replaceAll("[^A-Za-z0-9._-]", "_");
    }

    private void build() {
        JobConfiguration.apply(plan, job);
        DataStream<byte[]> stream = source();
        int stages = plan.number("stages");
        for (int stage = 0; stage < stages; stage++) {
            stream = behind(stream, "stage." + stage + ".");
        }
    }

    private DataStream<byte[]> source() {
        KeyValues spec = spec("Source").with("restore.from", arguments.restoreFrom);
        RustSource source = new RustSource(spec, marksFolder);
        SingleOutputStreamOperator<byte[]> stream =
                job.fromSource(source, WatermarkStrategy.noWatermarks(), "Source", BYTES);
        return placed(stream, "Source", 1);
    }

    private DataStream<byte[]> behind(DataStream<byte[]> previous, String key) {
        String name = plan.get(key + "name");
        int parallelism = plan.number(key + "parallelism");
        Target target = new Target(name, parallelism);
        SingleOutputStreamOperator<byte[]> stream =
                previous.partitionCustom(target, target)
                        .transform(name, BYTES, new RustOperator(spec(name), marksFolder));
        int weight = plan.number(key + "memory.weight");
        if (weight > 0) {
            stream.getTransformation()
                    .declareManagedMemoryUseCaseAtOperatorScope(
                            ManagedMemoryUseCase.OPERATOR, weight);
        }
        return placed(stream, name, parallelism);
    }

    private DataStream<byte[]> placed(
            SingleOutputStreamOperator<byte[]> stream, String name, int parallelism) {
        String slots = name.equals(WRITER) ? plan.get("writer.slots") : "";
        // Chaining has other defaults in 2.x. What follows would inherit a slot group.
        return stream.uid(name)
                .setParallelism(parallelism)
                .setMaxParallelism(MAX_PARALLELISM)
                .disableChaining()
                .slotSharingGroup(slots.isEmpty() ? DEFAULT_SLOTS : slots);
    }
}
