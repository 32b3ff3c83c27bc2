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

/** One reader of the source: its share of the tables is read by Rust. */
final class RustReader implements SourceReader<byte[], ReaderSplit> {
    private final SourceReaderContext context;
    private final KeyValues spec;
    private final int readers;
    private final String marksFolder;

    /** Records that came up when Flink was not taking any. */
    private final List<byte[]> records = new ArrayList<>();

    /** Of another number of readers; kept until the enumerator has made new ones of them. */
    private final List<ReaderSplit> formerSplits = new ArrayList<>();

    private final CompletableFuture<Void> hasWork = new CompletableFuture<>();
    private ReaderSplit split;
    private boolean noMoreSplits;
    private Scratch scratch;
    private Handle handle;
    private Cancellation cancellation;
    private ReaderOutput<byte[]> current;

    RustReader(SourceReaderContext context, KeyValues spec, int readers, String marksFolder) {
        this.context = context;
        this.spec = spec;
        this.readers = readers;
        this.marksFolder = marksFolder;
    }

    @Override
    public void start() {
        List<byte[]> states = new ArrayList<>();
        formerSplits.forEach(former -> states.addAll(former.states));
        context.sendSourceEventToCoordinator(new ReaderStarted(split != null, states));
    }

    @Override
    public void addSplits(List<ReaderSplit> splits) {
        for (ReaderSplit added : splits) {
            if (added.of != readers) {
                formerSplits.add(added);
            } else if (split == null) {
                split = added;
                formerSplits.clear();
                hasWork.complete(null);
            } else {
                throw new IllegalStateException(added.splitId() + " is one too many here");
            }
        }
    }

    @Override
    public void notifyNoMoreSplits() {
        noMoreSplits = true;
        hasWork.complete(null);
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
        return hasWork;
    }

    @Override
    public InputStatus pollNext(ReaderOutput<byte[]> output) throws Exception {
        if (split == null) {
            return noMoreSplits ? InputStatus.END_OF_INPUT : InputStatus.NOTHING_AVAILABLE;
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
        scratch = new Scratch(context.getConfiguration(), split.index);
        Map<String, String> flink = context.metricGroup().getAllVariables();
        KeyValues mine = spec.copy().with("index", split.index).with("parallelism", readers);
        mine.with("attempt", flink.get("<task_attempt_num>")).with("job", flink.get("<job_id>"));
        mine.with("memory.bytes", 0).with("scratch.dir", scratch.folder());
        byte[][] restored = split.states.isEmpty() ? null : split.states.toArray(new byte[0][]);
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
    public List<ReaderSplit> snapshotState(long checkpoint) {
        if (split == null) {
            return List.copyOf(formerSplits);
        }
        if (handle == null) {
            return List.of(split);
        }
        byte[] state = handle.snapshotState(checkpoint);
        List<byte[]> states = state.length == 0 ? List.of() : List.of(state);
        return List.of(new ReaderSplit(split.index, readers, states));
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
