package io.lakeward.flink;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Marks that instances leave for each other: empty files beside the checkpoints, in folders of one
 * attempt each. A name is {@code folder/name}.
 */
final class Marks {
    private static final Logger LOG = LoggerFactory.getLogger(Marks.class);
    private static final long LISTING_INTERVAL_NANOS = 100_000_000;

    private final Path root;
    private final Set<String> watched = new TreeSet<>();
    private long listedAtNanos = System.nanoTime() - LISTING_INTERVAL_NANOS;

    Marks(String root) {
        this.root = new Path(root);
    }

    /** Leaving a mark twice is leaving it once. */
    void leave(String name) throws IOException {
        FileSystem files = root.getFileSystem();
        Path file = path(name);
        files.mkdirs(file.getParent());
        files.create(file, FileSystem.WriteMode.OVERWRITE).close();
    }

    void watch(String folder) {
        watched.add(folder);
        listedAtNanos = System.nanoTime() - LISTING_INTERVAL_NANOS;
    }

    void unwatch(String folder) {
        watched.remove(folder);
    }

    /** All marks in the watched folders, a line each; null when it is not time to look. */
    byte[] news() throws IOException {
        if (watched.isEmpty() || System.nanoTime() - listedAtNanos < LISTING_INTERVAL_NANOS) {
            return null;
        }
        StringBuilder names = new StringBuilder();
        for (String folder : watched) {
            for (FileStatus file : list(path(folder))) {
                names.append(names.length() == 0 ? "" : "\n").append(folder).append('/');
                names.append(file.getPath().getName());
            }
        }
        listedAtNanos = System.nanoTime();
        return names.toString().getBytes(StandardCharsets.UTF_8);
    }

    /** {@code folder/prefix}: the marks that begin so. {@code !folder}: every folder but this one. */
    void clear(String what) {
        if (what.startsWith("!")) {
            String kept = what.substring(1);
            clear(root, name -> !name.equals(kept));
        } else {
            int slash = what.lastIndexOf('/');
            String prefix = what.substring(slash + 1);
            Path folder = slash < 0 ? root : path(what.substring(0, slash));
            clear(folder, name -> name.startsWith(prefix));
        }
    }

    /** What stays behind is never read again. */
    private void clear(Path folder, Predicate<String> chosen) {
        try {
            for (FileStatus found : list(folder)) {
                if (chosen.test(found.getPath().getName())) {
                    root.getFileSystem().delete(found.getPath(), true);
                }
            }
        } catch (IOException e) {
            LOG.debug("marks in {} could not be deleted", folder, e);
        }
    }

    private FileStatus[] list(Path folder) throws IOException {
        try {
            FileStatus[] found = root.getFileSystem().listStatus(folder);
            return found == null ? new FileStatus[0] : found;
        } catch (FileNotFoundException e) {
            // Nobody has left a mark so far.
            return new FileStatus[0];
        }
    }

    private Path path(String name) {
        if (!name.matches("[A-Za-z0-9._/-]+") || name.startsWith("/") || name.contains("..")) {
            throw new IllegalArgumentException("not a mark: " + name);
        }
        return new Path(root, name);
    }
}
