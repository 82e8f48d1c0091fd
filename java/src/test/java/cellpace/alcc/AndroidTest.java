package cellpace.alcc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What can be checked of Android without Android. */
class AndroidTest {
    @TempDir
    Path folder;

    /** Android's own compiler of bytecode takes the library at API level 21, where nothing may be made by invokedynamic. */
    @Test
    void theLibraryBecomesDexAtApiLevel21() throws Exception {
        Path dex = folder.resolve("classes.dex");
        dex(dex, Paths.get("target", "classes"));
        byte[] bytes = Files.readAllBytes(dex);
        assertEquals("dex\n035", new String(bytes, 0, 7, "US-ASCII"));
        assertTrue(bytes.length < 100_000, bytes.length + " bytes");
        System.out.println("dex: " + bytes.length + " bytes");
    }

    private void dex(Path output, Path classes) throws IOException, InterruptedException {
        String path = jar(com.android.dx.command.Main.class);
        Process process = new ProcessBuilder(Paths.get(System.getProperty("java.home"), "bin", "java").toString(), "-cp",
                path, "com.android.dx.command.Main", "--dex", "--min-sdk-version=21", "--output=" + output,
                classes.toAbsolutePath().toString()).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes());
        assertEquals(0, process.waitFor(), said);
    }

    private static String jar(Class<?> of) {
        return of.getProtectionDomain().getCodeSource().getLocation().getPath();
    }

    /** The example app, against the stubs of an older Android than it needs. It is not run. */
    @Test
    void theExampleCompilesAgainstAndroid() throws Exception {
        Path example = Paths.get("example", "src");
        List<String> arguments = new ArrayList<>(List.of("-proc:none", "-Xlint:all,-options", "-Werror", "--release",
                "8", "-classpath", System.getProperty("android.stubs") + File.pathSeparator + Paths.get("target", "classes"),
                "-d", folder.toString()));
        try (Stream<Path> files = Files.walk(example)) {
            arguments.addAll(files.filter(file -> file.toString().endsWith(".java")).map(Path::toString)
                    .collect(Collectors.toList()));
        }
        assertTrue(arguments.size() > 10, "the example has sources");
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        int outcome = compiler.run(null, OutputStream.nullOutputStream(), new PrintStream(said),
                arguments.toArray(new String[0]));
        assertEquals(0, outcome, said.toString());
        dex(folder.resolve("example.dex"), folder);
        assertTrue(new File(folder.toFile(), "example.dex").length() > 0);
    }
}
