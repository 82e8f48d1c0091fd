package cellpace.alcc;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Random;
import javax.net.SocketFactory;
import okhttp3.MediaType;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.RequestBody;
import okhttp3.Response;
import okio.BufferedSink;

/**
 * An upload by HTTP as a program, for what runs behind an emulated link: {@code UploadMain alcc|plain|okhttp HOST PORT BYTES}.
 * The server answers with the SHA-256 of what came; prints one line, and fails if it is another one.
 */
final class UploadMain {
    private UploadMain() {}

    public static void main(String[] arguments) throws Exception {
        String how = arguments[0];
        InetSocketAddress server = new InetSocketAddress(arguments[1], Integer.parseInt(arguments[2]));
        long bytes = Long.parseLong(arguments[3]);
        long cpu = cpuNanos();
        long start = System.nanoTime();
        String said = how.equals("okhttp") ? okHttp(server, bytes) : sockets(how.equals("alcc"), server, bytes);
        double seconds = (System.nanoTime() - start) / 1e9;
        double busy = (cpuNanos() - cpu) / 1e9;
        System.out.printf("%s: %d bytes in %.3f s, %.3f s of processor time, %s%n", how, bytes, seconds, busy, said);
    }

    private static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }

    /** The same bytes for the same length, in parts of 64 KiB. */
    static void data(long bytes, OutputStream out, MessageDigest hash) throws IOException {
        Random random = new Random(bytes);
        byte[] part = new byte[1 << 16];
        random.nextBytes(part);
        for (long left = bytes; left > 0; left -= part.length) {
            int count = (int) Math.min(part.length, left);
            // Each part differs in its first bytes.
            Bytes.put(part, 0, 8, left);
            hash.update(part, 0, count);
            out.write(part, 0, count);
        }
    }

    static String hex(MessageDigest hash) {
        byte[] bytes = hash.digest();
        return Vectors.hex(bytes, bytes.length);
    }

    static String sockets(boolean alcc, InetSocketAddress server, long bytes) throws Exception {
        AlccOptions options = AlccOptions.defaults().plainFallback(false);
        SocketFactory factory = alcc ? new AlccSocketFactory(options, server.getPort()) : SocketFactory.getDefault();
        try (Socket socket = factory.createSocket(server.getAddress(), server.getPort())) {
            OutputStream out = socket.getOutputStream();
            String head = "PUT /upload HTTP/1.1\r\nHost: x\r\nContent-Length: " + bytes + "\r\nConnection: close\r\n\r\n";
            out.write(head.getBytes(StandardCharsets.US_ASCII));
            MessageDigest hash = MessageDigest.getInstance("SHA-256");
            data(bytes, out, hash);
            out.flush();
            BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
            String last = null;
            for (String line; (line = in.readLine()) != null; ) {
                last = line;
            }
            check(hex(hash), last);
            return alcc ? ((AlccSocket) socket).statistics().toString() : "plain TCP";
        }
    }

    private static String okHttp(InetSocketAddress server, long bytes) throws Exception {
        AlccOptions options = AlccOptions.defaults().plainFallback(false);
        OkHttpClient client = new OkHttpClient.Builder()
                .socketFactory(new AlccSocketFactory(options, server.getPort())).build();
        String host = server.getAddress().getHostAddress();
        put(client, "http://" + host + ":" + server.getPort() + "/upload", bytes);
        client.connectionPool().evictAll();
        client.dispatcher().executorService().shutdown();
        return "OkHttp";
    }

    static Response put(OkHttpClient client, String url, long bytes) throws Exception {
        MessageDigest hash = MessageDigest.getInstance("SHA-256");
        RequestBody body = new RequestBody() {
            @Override
            public MediaType contentType() {
                return MediaType.parse("application/octet-stream");
            }

            @Override
            public long contentLength() {
                return bytes;
            }

            @Override
            public boolean isOneShot() {
                return true;
            }

            @Override
            public void writeTo(BufferedSink sink) throws IOException {
                data(bytes, sink.outputStream(), hash);
            }
        };
        try (Response response = client.newCall(new Request.Builder().url(url).put(body).build()).execute()) {
            check(hex(hash), response.body().string().trim());
            return response;
        }
    }

    private static void check(String expected, String found) {
        if (!expected.equals(found)) {
            throw new IllegalStateException("the server got " + found + ", sent was " + expected);
        }
    }
}
