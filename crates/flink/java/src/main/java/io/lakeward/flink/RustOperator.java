package io.lakeward.flink;

import static org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo.*;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.TaskInfo;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.memory.ManagedMemoryUseCase;
import org.apache.flink.runtime.execution.Environment;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** Any stage behind the source: passes Flink's moments on to the Rust operator of the same name. */
final class RustOperator extends AbstractStreamOperator<byte[]>
        implements OneInputStreamOperator<byte[], byte[]>, BoundedOneInput {
    private static final long serialVersionUID = 1;
    private static final long POLL_INTERVAL_MS = 20;
    private static final ListStateDescriptor<byte[]> STATE =
            new ListStateDescriptor<>("state", BYTE_PRIMITIVE_ARRAY_TYPE_INFO);

    private final KeyValues spec;
    private final String marksFolder;

    private transient Scratch scratch;
    private transient Handle handle;
    private transient ListState<byte[]> state;
    private transient boolean ended;

    /** {@code spec}: what all instances of the stage have in common. */
    RustOperator(KeyValues spec, String marksFolder) {
        this.spec = spec;
        this.marksFolder = marksFolder;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        // The union: after a change of parallelism only Rust knows which part belongs where.
        state = context.getOperatorStateStore().getUnionListState(STATE);
        List<byte[]> restored = new ArrayList<>();
        if (context.isRestored()) {
            state.get().forEach(restored::add);
        }
        openHandle(context.isRestored() ? restored.toArray(new byte[0][]) : null);
    }

    private void openHandle(byte[][] restored) throws Exception {
        TaskInfo task = getRuntimeContext().getTaskInfo();
        Environment environment = getContainingTask().getEnvironment();
        Configuration flink = environment.getTaskManagerInfo().getConfiguration();
        int index = task.getIndexOfThisSubtask();
        scratch = new Scratch(flink, index);
        KeyValues mine = spec.copy();
        mine.with("index", index).with("parallelism", task.getNumberOfParallelSubtasks());
        mine.with("attempt", task.getAttemptNumber()).with("job", environment.getJobID());
        mine.with("memory.bytes", reserveMemory(environment, flink));
        mine.with("scratch.dir", scratch.folder());
        NativeMetrics metrics = new NativeMetrics(getMetricGroup());
        handle = new Handle(mine, restored, new Marks(marksFolder), metrics, this::emit);
        getContainingTask().getCancelables().registerCloseable(handle::cancel);
    }

    /** This instance's share of the managed memory of its slot. */
    private long reserveMemory(Environment environment, Configuration flink) throws Exception {
        Configuration job = environment.getJobConfiguration();
        ManagedMemoryUseCase use = ManagedMemoryUseCase.OPERATOR;
        double share =
                getOperatorConfig()
                        .getManagedMemoryFractionOperatorUseCaseOfSlot(
                                use, job, flink, getUserCodeClassloader());
        if (share <= 0) {
            return 0;
        }
        long bytes = environment.getMemoryManager().computeMemorySize(share);
        environment.getMemoryManager().reserveMemory(this, bytes);
        return bytes;
    }

    @Override
    public void open() throws Exception {
        super.open();
        getProcessingTimeService()
                .scheduleWithFixedDelay(now -> handle.poll(), POLL_INTERVAL_MS, POLL_INTERVAL_MS);
    }

    @Override
    public void processElement(StreamRecord<byte[]> element) throws Exception {
        handle.process(element.getValue());
    }

    private void emit(byte[] record) {
        if (ended) {
            throw new IllegalStateException(
                    getOperatorName() + " puts out a record after its end, which Flink would lose");
        }
        output.collect(new StreamRecord<>(record));
    }

    @Override
    public void prepareSnapshotPreBarrier(long checkpoint) throws Exception {
        super.prepareSnapshotPreBarrier(checkpoint);
        handle.prepareSnapshot(checkpoint);
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        byte[] bytes = handle.snapshotState(context.getCheckpointId());
        state.update(bytes.length == 0 ? List.of() : List.of(bytes));
    }

    @Override
    public void notifyCheckpointComplete(long checkpoint) throws Exception {
        super.notifyCheckpointComplete(checkpoint);
        handle.checkpointComplete(checkpoint);
    }

    @Override
    public void endInput() throws Exception {
        handle.finish();
    }

    @Override
    public void finish() throws Exception {
        ended = true;
        super.finish();
    }

    @Override
    public void close() throws Exception {
        try {
            if (handle != null) {
                handle.close();
            }
        } finally {
            if (scratch != null) {
                scratch.remove();
            }
            getContainingTask().getEnvironment().getMemoryManager().releaseAllMemory(this);
            super.close();
        }
    }
}
