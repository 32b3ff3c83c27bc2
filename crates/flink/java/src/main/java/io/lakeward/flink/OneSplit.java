package io.lakeward.flink;

import java.util.List;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** Gives the one reader the one split, once; its state says whether that is done. */
final class OneSplit implements SplitEnumerator<ReaderState, Boolean> {
    private final SplitEnumeratorContext<ReaderState> context;
    private boolean assigned;

    OneSplit(SplitEnumeratorContext<ReaderState> context, boolean assigned) {
        this.context = context;
        this.assigned = assigned;
    }

    @Override
    public void start() {}

    @Override
    public void addReader(int reader) {
        if (!assigned) {
            context.assignSplit(new ReaderState(new byte[0]), reader);
            assigned = true;
        }
    }

    @Override
    public void handleSplitRequest(int reader, String host) {
        throw new IllegalStateException("the reader does not ask for its split");
    }

    /** The reader failed before a checkpoint knew of its split: it starts afresh. */
    @Override
    public void addSplitsBack(List<ReaderState> splits, int reader) {
        assigned = assigned && splits.isEmpty();
    }

    @Override
    public Boolean snapshotState(long checkpoint) {
        return assigned;
    }

    @Override
    public void close() {}

    static final class Serializer implements SimpleVersionedSerializer<Boolean> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Boolean assigned) {
            return new byte[] {(byte) (assigned ? 1 : 0)};
        }

        @Override
        public Boolean deserialize(int version, byte[] bytes) {
            return bytes[0] != 0;
        }
    }
}
