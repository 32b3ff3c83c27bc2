package io.lakeward.flink;

import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** The source of a pipeline: one split per reader, read by Rust. */
final class RustSource implements Source<byte[], ReaderSplit, Assignment> {
    private static final long serialVersionUID = 1;

    private final KeyValues spec;
    private final int readers;
    private final boolean bounded;
    private final String marksFolder;

    RustSource(KeyValues spec, int readers, boolean bounded, String marksFolder) {
        this.spec = spec;
        this.readers = readers;
        this.bounded = bounded;
        this.marksFolder = marksFolder;
    }

    @Override
    public Boundedness getBoundedness() {
        return bounded ? Boundedness.BOUNDED : Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<byte[], ReaderSplit> createReader(SourceReaderContext context) {
        return new RustReader(context, spec, readers, marksFolder);
    }

    @Override
    public SplitEnumerator<ReaderSplit, Assignment> createEnumerator(
            SplitEnumeratorContext<ReaderSplit> context) {
        return new ReaderEnumerator(context, readers, null);
    }

    @Override
    public SplitEnumerator<ReaderSplit, Assignment> restoreEnumerator(
            SplitEnumeratorContext<ReaderSplit> context, Assignment restored) {
        return new ReaderEnumerator(context, readers, restored);
    }

    @Override
    public SimpleVersionedSerializer<ReaderSplit> getSplitSerializer() {
        return new ReaderSplit.Serializer();
    }

    @Override
    public SimpleVersionedSerializer<Assignment> getEnumeratorCheckpointSerializer() {
        return new Assignment.Serializer();
    }
}
