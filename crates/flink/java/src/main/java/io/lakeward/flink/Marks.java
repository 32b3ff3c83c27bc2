package io.lakeward.flink;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.apache.flink.core.fs.FSDataOutputStream;
import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Marks that instances leave for each other: empty files beside the checkpoints, in folders of one
 * attempt each, {@code a17/name}. Copies of state are kept there too, {@code state/17-12/name}.
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

    /** {@code a17/prefix}: the marks that begin so. {@code !a17}: the folders of other attempts. */
    void clear(String what) {
        if (what.startsWith("!")) {
            String kept = what.substring(1);
            clear(root, name -> name.matches("a[0-9]+") && !name.equals(kept));
        } else {
            int slash = what.lastIndexOf('/');
            String prefix = what.substring(slash + 1);
            Path folder = slash < 0 ? root : path(what.substring(0, slash));
            clear(folder, name -> name.startsWith(prefix));
        }
    }

    /** Keeps what follows the name and a null byte in the output, and the newest copies only. */
    void store(byte[] output, int from) throws IOException {
        int end = from;
        while (output[end] != 0) {
            end++;
        }
        Path file = path(new String(output, from, end - from, StandardCharsets.UTF_8));
        FileSystem files = root.getFileSystem();
        files.mkdirs(file.getParent());
        Path part = file.suffix(".part");
        try (FSDataOutputStream out = files.create(part, FileSystem.WriteMode.OVERWRITE)) {
            out.write(output, end + 1, output.length - end - 1);
        }
        files.delete(file, false);
        if (!files.rename(part, file)) {
            throw new IOException("the copy of a state could not be put at " + file);
        }
        forgetBefore(file.getParent());
    }

    /** Copies are named in their order. The newest and the one before it stay. */
    private void forgetBefore(Path newest) throws IOException {
        String[] older =
                Stream.of(list(newest.getParent()))
                        .map(folder -> folder.getPath().getName())
                        .filter(name -> name.compareTo(newest.getName()) < 0)
                        .sorted()
                        .toArray(String[]::new);
        String kept = older.length == 0 ? "" : older[older.length - 1];
        clear(newest.getParent(), name -> name.compareTo(kept) < 0);
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
