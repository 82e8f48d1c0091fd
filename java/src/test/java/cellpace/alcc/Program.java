package cellpace.alcc;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** {@code cellpace proxy} in front of a server; the variable CELLPACE_PROGRAM says where cellpace is. */
final class Program implements Closeable {
    private final Process process;
    final int port;

    private Program(Process process, int port) {
        this.process = process;
        this.port = port;
    }

    /** Where the program is; without one the test is skipped, and says so. */
    static String path() {
        String path = System.getenv("CELLPACE_PROGRAM");
        boolean there = path != null && !path.isEmpty() && new File(path).canExecute();
        if (!there) {
            System.out.println("skipped: CELLPACE_PROGRAM names no cellpace");
        }
        assumeTrue(there, "CELLPACE_PROGRAM names no cellpace");
        return path;
    }

    /** With the reverse proxy of the documentation. */
    static Program proxy(String listen, int to, Path log) throws IOException, InterruptedException {
        String path = path();
        int port;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            port = free.getLocalPort();
        }
        List<String> command = new ArrayList<>(List.of(path, "proxy", "--listen", listen + ":" + port, "--to",
                "127.0.0.1:" + to, "--driver", "client-server", "--cc", "copa", "--max-connections", "2000",
                "--max-per-client", "none"));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log.toFile()).start();
        Program program = new Program(process, port);
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (!program.answers()) {
            boolean runs = process.isAlive() && System.nanoTime() < until;
            assertTrue(runs, "cellpace proxy does not listen: " + Files.readString(log));
            TimeUnit.MILLISECONDS.sleep(10);
        }
        return program;
    }

    InetSocketAddress address() {
        return new InetSocketAddress("127.0.0.1", port);
    }

    private boolean answers() {
        try (Socket socket = new Socket("127.0.0.1", port)) {
            return socket.isConnected();
        } catch (IOException notYet) {
            return false;
        }
    }

    void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }
}
