package io.lakeward.flink;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.Iterator;
import java.util.List;

/** The command line of the job. */
final class Arguments {
    private static final String USAGE =
            "usage: [--until caught-up] [--marks-dir DIR] [--restore-from DIR]"
                    + " (pipeline.yaml | --pipeline-base64 TEXT [--file NAME])";

    /** The text of the pipeline file, in Base64. */
    String pipeline;

    /** Its name, for messages. */
    String file;

    String until;
    String marksFolder;

    /** A state directory of the embedded runtime to go on from. */
    String restoreFrom;

    static Arguments parse(String... arguments) throws IOException {
        Arguments parsed = new Arguments();
        for (Iterator<String> words = List.of(arguments).iterator(); words.hasNext(); ) {
            String word = words.next();
            switch (word) {
                case "--pipeline-base64":
                    parsed.pipeline = value(words, word);
                    break;
                case "--file":
                    parsed.file = value(words, word);
                    break;
                case "--until":
                    parsed.until = value(words, word);
                    break;
                case "--marks-dir":
                    parsed.marksFolder = value(words, word);
                    break;
                case "--restore-from":
                    parsed.restoreFrom = value(words, word);
                    break;
                default:
                    parsed.read(word);
            }
        }
        if (parsed.pipeline == null) {
            throw new IllegalArgumentException("no pipeline was given; " + USAGE);
        }
        return parsed;
    }

    private void read(String name) throws IOException {
        if (name.startsWith("--") || pipeline != null) {
            throw new IllegalArgumentException("what is " + name + "? " + USAGE);
        }
        file = name;
        pipeline = Base64.getEncoder().encodeToString(Files.readAllBytes(Path.of(name)));
    }

    private static String value(Iterator<String> words, String option) {
        if (!words.hasNext()) {
            throw new IllegalArgumentException(option + " lacks its value; " + USAGE);
        }
        return words.next();
    }
}
