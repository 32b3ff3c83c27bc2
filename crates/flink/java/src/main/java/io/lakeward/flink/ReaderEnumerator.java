package io.lakeward.flink;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;

/**
 * Gives each reader its split, once. When the number of readers is not that of the checkpoint, it
 * first collects the former states from all readers and gives all of them to each: only Rust knows
 * which part belongs where. Until then readers keep the former splits in their own checkpoints.
 */
final class ReaderEnumerator implements SplitEnumerator<ReaderSplit, Assignment> {
    private final SplitEnumeratorContext<ReaderSplit> context;
    private final int readers;
    private final BitSet assigned = new BitSet();

    /** Splits whose readers failed before a checkpoint knew of them. */
    private final Map<Integer, ReaderSplit> returned = new TreeMap<>();

    /** By reader, while collecting. */
    private final Map<Integer, List<byte[]>> formerStates = new TreeMap<>();

    /** While collecting: how many there were; otherwise {@code readers}. */
    private int readersOfStates;

    ReaderEnumerator(
            SplitEnumeratorContext<ReaderSplit> context, int readers, Assignment restored) {
        this.context = context;
        this.readers = readers;
        this.readersOfStates = restored == null ? readers : restored.readers;
        if (restored != null && restored.readers == readers) {
            assigned.or(restored.assigned);
        }
    }

    @Override
    public void start() {}

    @Override
    public void addReader(int reader) {
        // It tells what it holds: see handleSourceEvent.
    }

    @Override
    public void handleSplitRequest(int reader, String host) {
        throw new IllegalStateException("readers do not ask for splits");
    }

    @Override
    public void handleSourceEvent(int reader, SourceEvent event) {
        ReaderStarted started = (ReaderStarted) event;
        if (started.hasSplit) {
            assigned.set(reader);
            context.signalNoMoreSplits(reader);
        } else if (readersOfStates == readers) {
            assign(reader, List.of());
        } else {
            formerStates.put(reader, started.formerStates);
            if (formerStates.size() == readers) {
                List<byte[]> all = new ArrayList<>();
                formerStates.values().forEach(all::addAll);
                readersOfStates = readers;
                formerStates.keySet().forEach(each -> assign(each, all));
                formerStates.clear();
            }
        }
    }

    private void assign(int reader, List<byte[]> states) {
        if (!assigned.get(reader)) {
            ReaderSplit split = returned.remove(reader);
            if (split == null) {
                split = new ReaderSplit(reader, readers, states);
            }
            context.assignSplit(split, reader);
            assigned.set(reader);
        }
        context.signalNoMoreSplits(reader);
    }

    @Override
    public void addSplitsBack(List<ReaderSplit> splits, int reader) {
        for (ReaderSplit split : splits) {
            if (split.of == readers) {
                assigned.clear(reader);
                returned.put(reader, split);
            }
        }
    }

    @Override
    public Assignment snapshotState(long checkpoint) {
        return new Assignment(readersOfStates, (BitSet) assigned.clone());
    }

    @Override
    public void close() {}
}
