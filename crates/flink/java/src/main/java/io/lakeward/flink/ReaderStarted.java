package io.lakeward.flink;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.connector.source.SourceEvent;

/** A reader tells the enumerator what it holds. */
final class ReaderStarted implements SourceEvent {
    private static final long serialVersionUID = 1;

    /** It has its share, from a checkpoint. */
    final boolean hasSplit;

    /** What it found of a time when there were more or fewer readers. */
    final ArrayList<byte[]> formerStates;

    ReaderStarted(boolean hasSplit, List<byte[]> formerStates) {
        this.hasSplit = hasSplit;
        this.formerStates = new ArrayList<>(formerStates);
    }
}
