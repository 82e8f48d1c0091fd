package cellpace.alcc;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** PUT answers with the SHA-256 of what came, GET /BYTES with that many bytes. Runs alone, too: {@code HashServer PORT}. */
final class HashServer implements Closeable {
    private final HttpServer server;
    private final ExecutorService threads = Executors.newCachedThreadPool();

    HashServer(int port) throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), port), 200);
        server.createContext("/", this::serve);
        server.setExecutor(threads);
        server.start();
    }

    public static void main(String[] arguments) throws IOException {
        new HashServer(Integer.parseInt(arguments[0]));
    }

    int port() {
        return server.getAddress().getPort();
    }

    private void serve(HttpExchange exchange) throws IOException {
        try {
            MessageDigest hash = MessageDigest.getInstance("SHA-256");
            byte[] part = new byte[1 << 16];
            InputStream in = exchange.getRequestBody();
            for (int count; (count = in.read(part)) >= 0; ) {
                hash.update(part, 0, count);
            }
            if (exchange.getRequestMethod().equals("GET")) {
                long bytes = Long.parseLong(exchange.getRequestURI().getPath().substring(1));
                exchange.sendResponseHeaders(200, bytes);
                UploadMain.data(bytes, exchange.getResponseBody(), hash);
            } else {
                byte[] answer = (UploadMain.hex(hash) + "\n").getBytes("US-ASCII");
                exchange.sendResponseHeaders(200, answer.length);
                OutputStream out = exchange.getResponseBody();
                out.write(answer);
            }
            exchange.close();
        } catch (NoSuchAlgorithmException impossible) {
            throw new IOException(impossible);
        }
    }

    @Override
    public void close() {
        server.stop(0);
        threads.shutdownNow();
    }
}
