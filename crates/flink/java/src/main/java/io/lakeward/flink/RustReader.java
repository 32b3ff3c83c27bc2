package io.lakeward.flink;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.core.io.InputStatus;

/** The reader of the source: Rust reads all tables and the log. */
final class RustReader implements SourceReader<byte[], ReaderState> {
    private final SourceReaderContext context;
    private final KeyValues spec;
    private final String marksFolder;

    /** Records that came up when Flink was not taking any. */
    private final List<byte[]> records = new ArrayList<>();

    private final CompletableFuture<Void> hasWork = new CompletableFuture<>();
    private ReaderState split;
    private Scratch scratch;
    private Handle handle;
    private Cancellation cancellation;
    private ReaderOutput<byte[]> current;

    RustReader(SourceReaderContext context, KeyValues spec, String marksFolder) {
        this.context = context;
        this.spec = spec;
        this.marksFolder = marksFolder;
    }

    @Override
    public void start() {}

    @Override
    public void addSplits(List<ReaderState> splits) {
        if (split != null || splits.size() != 1) {
            throw new IllegalStateException("the source has more than one split");
        }
        split = splits.get(0);
        hasWork.complete(null);
    }

    @Override
    public void notifyNoMoreSplits() {}

    @Override
    public CompletableFuture<Void> isAvailable() {
        return hasWork;
    }

    @Override
    public InputStatus pollNext(ReaderOutput<byte[]> output) throws Exception {
        if (split == null) {
            return InputStatus.NOTHING_AVAILABLE;
        }
        if (handle == null) {
            openHandle();
        }
        records.forEach(output::collect);
        records.clear();
        if (!handle.hasEnded()) {
            // A large transaction comes in parts, each of which goes on before the next is read.
            current = output;
            try {
                handle.poll();
            } finally {
                current = null;
            }
        }
        return handle.hasEnded() ? InputStatus.END_OF_INPUT : InputStatus.MORE_AVAILABLE;
    }

    private void openHandle() throws IOException {
        scratch = new Scratch(context.getConfiguration(), 0);
        Map<String, String> flink = context.metricGroup().getAllVariables();
        KeyValues mine = spec.copy().with("index", 0).with("parallelism", 1);
        mine.with("attempt", flink.get("<task_attempt_num>")).with("job", flink.get("<job_id>"));
        mine.with("memory.bytes", 0).with("scratch.dir", scratch.folder());
        byte[][] restored = {split.bytes};
        NativeMetrics metrics = new NativeMetrics(context.metricGroup());
        handle = new Handle(mine, restored, new Marks(marksFolder), metrics, this::take);
        cancellation = new Cancellation(handle);
    }

    private void take(byte[] record) {
        if (current == null) {
            records.add(record);
        } else {
            current.collect(record);
        }
    }

    @Override
    public List<ReaderState> snapshotState(long checkpoint) {
        if (split == null) {
            return List.of();
        }
        return List.of(handle == null ? split : new ReaderState(handle.snapshotState(checkpoint)));
    }

    @Override
    public void notifyCheckpointComplete(long checkpoint) throws Exception {
        if (handle != null) {
            handle.checkpointComplete(checkpoint);
        }
    }

    @Override
    public void close() throws Exception {
        try {
            if (handle != null) {
                cancellation.close();
                handle.close();
            }
        } finally {
            if (scratch != null) {
                scratch.remove();
            }
        }
    }
}
