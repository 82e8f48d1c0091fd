package cellpace.alcc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManager;
import okhttp3.OkHttpClient;
import okhttp3.Protocol;
import okhttp3.Request;
import okhttp3.Response;
import okhttp3.mockwebserver.Dispatcher;
import okhttp3.mockwebserver.MockResponse;
import okhttp3.mockwebserver.MockWebServer;
import okhttp3.mockwebserver.RecordedRequest;
import okhttp3.tls.HandshakeCertificates;
import okhttp3.tls.HeldCertificate;
import org.conscrypt.Conscrypt;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Against the implementation in Rust: {@code cellpace proxy --driver client-server} in front of an HTTP server. */
@Timeout(100)
class ProgramTest {
    private static final long SIZE = 20_000_000;

    @TempDir
    Path folder;

    private Program proxy(int to) throws Exception {
        return Program.proxy("127.0.0.1", to, folder.resolve("proxy.log"));
    }

    @Test
    void uploadsBySocketsArriveWhole() throws Exception {
        try (HashServer server = new HashServer(0); Program proxy = proxy(server.port())) {
            String said = UploadMain.sockets(true, proxy.address(), SIZE);
            assertTrue(said.startsWith("acked "), said);
        }
    }

    @Test
    void uploadsByOkHttpArriveWhole() throws Exception {
        try (HashServer server = new HashServer(0); Program proxy = proxy(server.port())) {
            AlccOptions options = AlccOptions.defaults().plainFallback(false);
            OkHttpClient client = new OkHttpClient.Builder()
                    .socketFactory(new AlccSocketFactory(options, proxy.port)).build();
            for (int i = 0; i < 3; i++) {
                assertEquals(200, UploadMain.put(client, "http://127.0.0.1:" + proxy.port + "/", SIZE / 4).code());
            }
            assertEquals(1, client.connectionPool().connectionCount(), "one connection for all");
            end(client);
        }
    }

    private static void end(OkHttpClient client) {
        client.connectionPool().evictAll();
        client.dispatcher().executorService().shutdown();
    }

    @Test
    void downloadsArriveWhole() throws Exception {
        try (HashServer server = new HashServer(0); Program proxy = proxy(server.port());
                AlccSocket socket = new AlccSocket(AlccOptions.defaults())) {
            socket.connect(proxy.address());
            OutputStream out = socket.getOutputStream();
            out.write(("GET /" + SIZE + " HTTP/1.0\r\n\r\n").getBytes(StandardCharsets.US_ASCII));
            out.flush();
            DataInputStream in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
            assertEquals(hash(SIZE), hash(in, SIZE));
        }
    }

    /** Behind the empty line that ends a head. */
    private static String hash(DataInputStream in, long length) throws Exception {
        for (int last = 0; last != 0x0d0a0d0a; ) {
            last = last << 8 | in.readUnsignedByte();
        }
        MessageDigest hash = MessageDigest.getInstance("SHA-256");
        byte[] part = new byte[10_000];
        for (long left = length; left > 0; ) {
            int count = in.read(part, 0, (int) Math.min(part.length, left));
            assertTrue(count > 0, left + " bytes are missing");
            hash.update(part, 0, count);
            left -= count;
        }
        return UploadMain.hex(hash);
    }

    private static String hash(long length) throws Exception {
        MessageDigest hash = MessageDigest.getInstance("SHA-256");
        UploadMain.data(length, OutputStream.nullOutputStream(), hash);
        return UploadMain.hex(hash);
    }

    @Test
    void bothDirectionsAtOnce() throws Exception {
        try (EchoServer server = new EchoServer(); Program proxy = proxy(server.port());
                AlccSocket socket = new AlccSocket(AlccOptions.defaults())) {
            socket.connect(proxy.address());
            Thread writer = new Thread(() -> {
                try {
                    UploadMain.data(SIZE, socket.getOutputStream(), MessageDigest.getInstance("SHA-256"));
                    socket.shutdownOutput();
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            });
            writer.start();
            MessageDigest hash = MessageDigest.getInstance("SHA-256");
            byte[] part = new byte[10_000];
            for (int count; (count = socket.getInputStream().read(part)) >= 0; ) {
                hash.update(part, 0, count);
            }
            writer.join();
            assertEquals(hash(SIZE), UploadMain.hex(hash));
        }
    }

    @Test
    void aServerThatIsKilledIsAnError() throws Exception {
        try (EchoServer server = new EchoServer(); Program proxy = proxy(server.port());
                AlccSocket socket = new AlccSocket(AlccOptions.defaults())) {
            socket.connect(proxy.address());
            socket.getOutputStream().write(7);
            assertEquals(7, socket.getInputStream().read());
            proxy.kill();
            assertThrows(SocketException.class, () -> socket.getInputStream().read());
            assertThrows(SocketException.class, () -> {
                while (true) {
                    socket.getOutputStream().write(new byte[5000]);
                }
            });
        }
    }

    @Test
    void twoHundredConnectionsAtOnce() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(200);
        try (HashServer server = new HashServer(0); Program proxy = proxy(server.port())) {
            List<Future<String>> all = new ArrayList<>();
            for (int i = 0; i < 200; i++) {
                int size = 50_000 + i;
                all.add(threads.submit(() -> UploadMain.sockets(true, proxy.address(), size)));
            }
            for (Future<String> one : all) {
                assertTrue(one.get(80, TimeUnit.SECONDS).startsWith("acked "));
            }
        } finally {
            threads.shutdownNow();
        }
    }

    // TLS, which goes through unread.

    private static final HeldCertificate OWN = new HeldCertificate.Builder().addSubjectAlternativeName("localhost").build();

    private static MockWebServer secure() throws IOException {
        MockWebServer server = new MockWebServer();
        server.useHttps(new HandshakeCertificates.Builder().heldCertificate(OWN).build().sslSocketFactory(), false);
        server.setDispatcher(new Dispatcher() {
            @Override
            public MockResponse dispatch(RecordedRequest request) {
                return new MockResponse().setBody(request.getBody().sha256().hex());
            }
        });
        server.start(InetAddress.getByName("127.0.0.1"), 0);
        return server;
    }

    private static OkHttpClient.Builder trusting() {
        HandshakeCertificates trust = new HandshakeCertificates.Builder().addTrustedCertificate(OWN.certificate()).build();
        return new OkHttpClient.Builder().sslSocketFactory(trust.sslSocketFactory(), trust.trustManager());
    }

    @Test
    void httpsByOkHttpThroughTheProxyOfTheApp() throws Exception {
        try (MockWebServer server = secure(); Program program = proxy(server.getPort());
                AlccProxy proxy = AlccProxy.start(AlccOptions.defaults().plainFallback(false),
                        InetSocketAddress.createUnresolved("localhost", program.port))) {
            for (Protocol protocol : new Protocol[] {Protocol.HTTP_2, Protocol.HTTP_1_1}) {
                OkHttpClient client = trusting().proxy(proxy.asProxy())
                        .protocols(protocol == Protocol.HTTP_2 ? List.of(protocol, Protocol.HTTP_1_1) : List.of(protocol))
                        .build();
                Response response = UploadMain.put(client, "https://localhost:" + program.port + "/", SIZE / 4);
                assertEquals(protocol, response.protocol());
                assertTrue(proxy.statistics().get(0).ackedBytes() > SIZE / 4, proxy.statistics().toString());
                end(client);
            }
        }
    }

    @Test
    void httpsByTheStreamsOfTheSocket() throws Exception {
        try (MockWebServer server = secure(); Program program = proxy(server.getPort())) {
            OkHttpClient client = trusting().socketFactory(
                    new AlccSocketFactory(AlccOptions.defaults().plainFallback(false), program.port)).build();
            UploadMain.put(client, "https://localhost:" + program.port + "/", SIZE / 4);
            end(client);
        }
    }

    /** TLS of Android above a socket of ours: that of newer ones by streams, or the older one by the file descriptor. */
    private static SSLSocket conscrypt(AlccSocket below, int port, boolean byStreams) throws Exception {
        HandshakeCertificates trust = new HandshakeCertificates.Builder().addTrustedCertificate(OWN.certificate()).build();
        SSLContext context = SSLContext.getInstance("TLS", Conscrypt.newProvider());
        context.init(null, new TrustManager[] {trust.trustManager()}, null);
        SSLSocketFactory factory = context.getSocketFactory();
        Conscrypt.setUseEngineSocket(factory, byStreams);
        return (SSLSocket) factory.createSocket(below, "localhost", port, true);
    }

    @Test
    void tlsOfNewerAndroidsUsesTheStreamsOfTheSocket() throws Exception {
        try (MockWebServer server = secure(); Program program = proxy(server.getPort());
                AlccSocket below = new AlccSocket(AlccOptions.defaults().plainFallback(false))) {
            below.connect(program.address());
            try (SSLSocket socket = conscrypt(below, program.port, true)) {
                socket.getOutputStream().write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
                byte[] answer = new byte[12];
                new DataInputStream(socket.getInputStream()).readFully(answer);
                assertEquals("HTTP/1.1 200", new String(answer, StandardCharsets.US_ASCII));
                assertTrue(below.statistics().ackedBytes() > 0, "nothing by-passed the frames");
            }
        }
    }

    @Test
    void tlsOfOlderAndroidsFailsInTheHandshakeAndByPassesNothing() throws Exception {
        try (MockWebServer server = secure(); Program program = proxy(server.getPort());
                AlccSocket below = new AlccSocket(AlccOptions.defaults().plainFallback(false))) {
            below.connect(program.address());
            SSLSocket socket = conscrypt(below, program.port, false);
            assertThrows(IOException.class, socket::startHandshake);
            assertEquals(0, server.getRequestCount());
        }
    }

    @Test
    void theProxyOfTheAppLeadsNowhereElse() throws Exception {
        try (EchoServer server = new EchoServer();
                AlccProxy proxy = AlccProxy.start(AlccOptions.defaults(), new InetSocketAddress("127.0.0.1", server.port()))) {
            assertEquals("HTTP/1.1 403 Forbidden", ask(proxy, "CONNECT example.org:443 HTTP/1.1"));
            assertEquals("HTTP/1.1 403 Forbidden", ask(proxy, "CONNECT 127.0.0.1:22 HTTP/1.1"));
            assertEquals("HTTP/1.1 405 Method Not Allowed", ask(proxy, "GET http://127.0.0.1/ HTTP/1.1"));
            assertEquals("HTTP/1.1 405 Method Not Allowed", ask(proxy, "\u0016\u0003\u0001 nonsense"));
            assertEquals("HTTP/1.1 431 Request Header Fields Too Large", ask(proxy, "CONNECT " + "x".repeat(20_000)));
            OkHttpClient client = new OkHttpClient.Builder().proxy(proxy.asProxy()).build();
            Request request = new Request.Builder().url("https://example.org/").build();
            assertThrows(IOException.class, () -> client.newCall(request).execute());
            assertEquals(List.of(), proxy.statistics());
            end(client);
        }
    }

    private static String ask(AlccProxy proxy, String line) throws IOException {
        try (Socket socket = new Socket("127.0.0.1", proxy.port())) {
            socket.getOutputStream().write((line + "\r\n\r\n").getBytes(StandardCharsets.ISO_8859_1));
            byte[] answer = new byte[200];
            int count = socket.getInputStream().read(answer);
            return new String(answer, 0, Math.max(count, 0), StandardCharsets.US_ASCII).split("\r\n")[0];
        }
    }

    // Behind an emulated uplink, in a network namespace of its own.

    @Test
    void uploadsThroughAnEmulatedUplinkArriveWhole() throws Exception {
        String cellpace = Program.path();
        boolean root = "root".equals(System.getProperty("user.name")) && Files.exists(Paths.get("/dev/net/tun"));
        if (!root) {
            System.out.println("skipped: cellpace link takes root and /dev/net/tun");
        }
        assumeTrue(root, "cellpace link takes root and /dev/net/tun");
        try (HashServer server = new HashServer(0);
                Program proxy = Program.proxy("0.0.0.0", server.port(), folder.resolve("proxy.log"))) {
            for (String how : new String[] {"alcc", "okhttp"}) {
                String command = "exec \"$0\" -cp \"$1\" cellpace.alcc.UploadMain " + how + " $CELLPACE_HOST " + proxy.port
                        + " 1500000";
                Process process = new ProcessBuilder(cellpace, "link", "--quiet", "--rtt", "40ms", "--trace",
                        "lte-driving", "--uplink", "lte-driving", "--", "sh", "-c", command,
                        Paths.get(System.getProperty("java.home"), "bin", "java").toString(),
                        System.getProperty("java.class.path")).redirectErrorStream(true).start();
                String said = new String(process.getInputStream().readAllBytes());
                assertTrue(process.waitFor(60, TimeUnit.SECONDS));
                assertEquals(0, process.exitValue(), said);
                assertTrue(said.contains(how + ": 1500000 bytes in "), said);
                assertFalse(said.contains("Exception"), said);
            }
        }
    }
}
