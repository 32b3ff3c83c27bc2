package io.lakeward.flink.nativelib;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.math.BigInteger;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.DigestInputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Locale;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Finds the Rust library and loads it, once per process wherever the class loaders allow that. */
final class NativeLibrary {
    /** A system property: the file to load instead of the one in the jar. */
    private static final String PATH = "lakeward.native.path";

    private static final String NAME = "liblakeward_flink.so";
    private static final Logger LOG = LoggerFactory.getLogger(NativeLibrary.class);

    private NativeLibrary() {}

    static void load() {
        String given = System.getProperty(PATH);
        try {
            Path library = given != null ? Path.of(given).toAbsolutePath() : unpacked();
            try {
                System.load(library.toString());
            } catch (UnsatisfiedLinkError refused) {
                if (!String.valueOf(refused.getMessage()).contains("already loaded")) {
                    throw refused;
                }
                loadCopy(library);
            }
        } catch (IOException e) {
            throw new UncheckedIOException("the library of Lakeward could not be unpacked", e);
        }
    }

    /** Each class loader needs a file of its own: the price of not having the library in lib. */
    private static void loadCopy(Path library) throws IOException {
        LOG.warn(
                "the library of Lakeward is loaded once more, for another class loader; each job"
                        + " and restart keeps one in memory. Put lakeward-flink-native.jar into"
                        + " Flink's lib folder and set classloader.parent-first-patterns."
                        + "additional: io.lakeward.flink.nativelib.");
        Path copy = Files.createTempFile("lakeward-", ".so");
        try {
            Files.copy(library, copy, StandardCopyOption.REPLACE_EXISTING);
            System.load(copy.toString());
        } finally {
            Files.delete(copy);
        }
    }

    /** The library as a file, named by its content, that other processes of this user share. */
    private static Path unpacked() throws IOException {
        Path folder = Path.of(System.getProperty("java.io.tmpdir"), "lakeward-native");
        Path fresh = Files.createTempFile("lakeward-", ".so");
        try {
            String name = copyTo(fresh) + "-" + Files.size(fresh) + ".so";
            if (!Files.isDirectory(folder)) {
                makePrivate(folder);
            }
            // A folder that somebody else made could hold anything.
            if (!Files.getOwner(folder).equals(Files.getOwner(fresh))) {
                folder = Files.createTempDirectory("lakeward-native-");
            }
            Path library = folder.resolve(name);
            if (!Files.isRegularFile(library)) {
                Files.move(fresh, library, StandardCopyOption.ATOMIC_MOVE);
            }
            return library;
        } finally {
            Files.deleteIfExists(fresh);
        }
    }

    private static void makePrivate(Path folder) throws IOException {
        var mine = PosixFilePermissions.fromString("rwx------");
        try {
            Files.createDirectory(folder, PosixFilePermissions.asFileAttribute(mine));
        } catch (FileAlreadyExistsException e) {
            LOG.debug("another process made {} just now", folder);
        }
    }

    /** Returns the start of the content's digest in hexadecimal. */
    private static String copyTo(Path file) throws IOException {
        String resource = platform() + "/" + NAME;
        try (InputStream in = NativeLibrary.class.getResourceAsStream(resource)) {
            if (in == null) {
                throw new IOException("there is no library for " + platform() + " in the jar");
            }
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            InputStream read = new DigestInputStream(in, digest);
            Files.copy(read, file, StandardCopyOption.REPLACE_EXISTING);
            return String.format("%064x", new BigInteger(1, digest.digest())).substring(0, 16);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java has SHA-256", e);
        }
    }

    private static String platform() {
        String arch = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        return System.getProperty("os.name").toLowerCase(Locale.ROOT)
                + "-"
                + (arch.equals("amd64") ? "x86_64" : arch);
    }
}
