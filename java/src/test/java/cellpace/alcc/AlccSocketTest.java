package cellpace.alcc;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cellpace.alcc.AlccException.Reason;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The socket against a server of the same library, and against servers that misbehave. */
@Timeout(60)
class AlccSocketTest {
    private static final AlccOptions OPTIONS = AlccOptions.defaults();

    /** Nothing of ours stays, whatever a test did. */
    @AfterEach
    void noThreadIsLeft() throws InterruptedException {
        awaitTrue(() -> threads().isEmpty());
    }

    private static List<String> threads() {
        List<String> names = new ArrayList<>();
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().startsWith("alcc-")) {
                names.add(thread.getName());
            }
        }
        return names;
    }

    private static AlccSocket connect(FramedServer server) throws IOException {
        AlccSocket socket = new AlccSocket(OPTIONS);
        socket.connect(server.address(), 10_000);
        return socket;
    }

    private static byte[] random(int length) {
        byte[] bytes = new byte[length];
        new Random(length).nextBytes(bytes);
        return bytes;
    }

    private static FramedServer echo() throws IOException {
        return new FramedServer(peer -> {
            byte[] bytes = new byte[5000];
            for (int count; (count = peer.read(bytes)) >= 0; ) {
                peer.channel.write(bytes, 0, count);
                peer.channel.flush();
            }
            peer.channel.shutdownOutput();
        });
    }

    @Test
    void bothDirectionsCarryWhatWasWritten() throws Exception {
        byte[] data = random(3_000_001);
        try (FramedServer server = echo(); AlccSocket socket = connect(server)) {
            Thread writer = new Thread(() -> {
                try {
                    OutputStream out = socket.getOutputStream();
                    Random random = new Random(1);
                    for (int at = 0; at < data.length; ) {
                        int count = Math.min(random.nextInt(20_000), data.length - at);
                        out.write(data, at, count);
                        at += count;
                    }
                    socket.shutdownOutput();
                } catch (IOException error) {
                    throw new IllegalStateException(error);
                }
            });
            writer.start();
            byte[] back = socket.getInputStream().readAllBytes();
            assertArrayEquals(data, back);
            writer.join();
            AlccStatistics statistics = socket.statistics();
            assertTrue(statistics.isFramed());
            assertEquals(data.length, statistics.ackedBytes());
            assertEquals(data.length, statistics.receivedBytes());
            assertEquals(0, statistics.inFlightBytes());
            assertTrue(statistics.minRttMicros() > 0 && statistics.windowBytes() >= 1500);
            assertEquals(List.of(), server.failures);
        }
    }

    @Test
    void halfCloseLeavesTheOtherDirectionOpen() throws Exception {
        CountDownLatch ended = new CountDownLatch(1);
        try (FramedServer server = new FramedServer(peer -> {
                assertEquals(5, peer.readAll());
                ended.countDown();
                for (int i = 0; i < 50; i++) {
                    peer.channel.write(new byte[10_000], 0, 10_000);
                }
            }); AlccSocket socket = connect(server)) {
            socket.getOutputStream().write(new byte[5]);
            socket.shutdownOutput();
            assertTrue(socket.isOutputShutdown() && !socket.isClosed());
            assertTrue(ended.await(20, TimeUnit.SECONDS));
            assertEquals(500_000, socket.getInputStream().readAllBytes().length);
            assertThrows(SocketException.class, () -> socket.getOutputStream());
            assertEquals(List.of(), server.failures);
        }
    }

    @Test
    void closeDeliversWhatWasWritten() throws Exception {
        AtomicLong got = new AtomicLong(-1);
        CountDownLatch done = new CountDownLatch(1);
        try (FramedServer server = new FramedServer(peer -> {
                got.set(peer.readAll());
                done.countDown();
            })) {
            AlccSocket socket = connect(server);
            socket.getOutputStream().write(random(777_777));
            socket.close();
            assertTrue(socket.isClosed());
            assertTrue(done.await(20, TimeUnit.SECONDS));
            assertEquals(777_777, got.get());
        }
    }

    @Test
    void aServerThatNeverEndsIsLeftInTheEnd() throws Exception {
        CountDownLatch over = new CountDownLatch(1);
        long patience = Lingering.milliseconds;
        Lingering.milliseconds = 200;
        try (FramedServer server = new FramedServer(peer -> over.await())) {
            AlccSocket socket = connect(server);
            socket.getOutputStream().write(random(10_000));
            socket.close();
            awaitTrue(() -> socket.statistics().ackedBytes() == 10_000);
            awaitTrue(socket::isOver);
        } finally {
            Lingering.milliseconds = patience;
            over.countDown();
        }
    }

    @Test
    void aDownloadThatIsClosedInTheMiddleEndsAtBothEnds() throws Exception {
        try (FramedServer server = new FramedServer(peer -> {
                while (true) {
                    peer.channel.write(new byte[10_000], 0, 10_000);
                }
            })) {
            AlccSocket socket = connect(server);
            assertEquals(50_000, socket.getInputStream().readNBytes(50_000).length);
            socket.close();
            awaitTrue(socket::isOver);
            awaitTrue(() -> server.failures.size() == 1);
            assertTrue(server.failures.get(0) instanceof SocketException, server.failures.toString());
        }
    }

    @Test
    void aSlowReaderClosesTheWindowAndOpensItAgain() throws Exception {
        CountDownLatch go = new CountDownLatch(1);
        AtomicLong got = new AtomicLong();
        try (FramedServer server = new FramedServer(20_000, peer -> {
                go.await();
                got.set(peer.readAll());
            }); AlccSocket socket = connect(server)) {
            Thread writer = new Thread(() -> {
                try {
                    socket.getOutputStream().write(random(500_000));
                    socket.shutdownOutput();
                } catch (IOException error) {
                    throw new IllegalStateException(error);
                }
            });
            writer.start();
            awaitTrue(() -> socket.statistics().ackedBytes() == 20_000);
            assertTrue(writer.isAlive(), "waits for the window");
            assertEquals(20_000, socket.statistics().sentBytes());
            go.countDown();
            writer.join();
            assertEquals(-1, socket.getInputStream().read());
            assertEquals(500_000, got.get());
        }
    }

    @Test
    void aReaderHereThatIsSlowHoldsTheServerBack() throws Exception {
        try (FramedServer server = new FramedServer(peer -> {
                peer.channel.write(new byte[300_000], 0, 300_000);
                peer.channel.shutdownOutput();
                peer.readAll();
            })) {
            AlccSocket socket = new AlccSocket(OPTIONS.incoming(10_000));
            socket.connect(server.address());
            awaitTrue(() -> socket.statistics().receivedBytes() == 10_000);
            DataInputStream in = new DataInputStream(socket.getInputStream());
            in.readFully(new byte[300_000]);
            assertEquals(-1, in.read());
            socket.close();
        }
    }

    private interface Condition {
        boolean holds();
    }

    private static void awaitTrue(Condition condition) throws InterruptedException {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (!condition.holds()) {
            assertTrue(System.nanoTime() < until, "in time");
            TimeUnit.MILLISECONDS.sleep(1);
        }
    }

    @Test
    void aPeerThatDiesIsAnErrorForReaderAndWriter() throws Exception {
        try (FramedServer server = new FramedServer(peer -> {
                peer.read(new byte[10]);
                peer.socket.setSoLinger(true, 0);
                peer.socket.close();
            }); AlccSocket socket = connect(server)) {
            try {
                socket.getOutputStream().write(1);
            } catch (SocketException error) {
                // The reset was here before the write returned.
            }
            assertThrows(SocketException.class, () -> socket.getInputStream().read());
            assertThrows(SocketException.class, () -> {
                while (true) {
                    socket.getOutputStream().write(new byte[10_000]);
                }
            });
        }
    }

    @Test
    void aConnectionThatEndsInTheMiddleIsNoEndOfTheStream() throws Exception {
        try (FramedServer server = new FramedServer(peer -> {
                peer.channel.write(new byte[100], 0, 100);
                peer.channel.flush();
                peer.read(new byte[1]);
                peer.socket.shutdownOutput();
            }); AlccSocket socket = connect(server)) {
            InputStream in = socket.getInputStream();
            assertEquals(100, in.readNBytes(100).length);
            try {
                socket.getOutputStream().write(1);
            } catch (AlccException error) {
                // The end was here before the write returned.
                assertEquals(Reason.TRUNCATED, error.reason());
            }
            AlccException error = assertThrows(AlccException.class, in::read);
            assertEquals(Reason.TRUNCATED, error.reason());
        }
    }

    @Test
    void anInterruptInWriteEndsTheConnection() throws Exception {
        CountDownLatch over = new CountDownLatch(1);
        try (FramedServer server = new FramedServer(4096, peer -> over.await());
                AlccSocket socket = connect(server)) {
            AtomicReference<IOException> seen = new AtomicReference<>();
            Thread writer = new Thread(() -> {
                try {
                    socket.getOutputStream().write(new byte[1_000_000]);
                } catch (IOException error) {
                    seen.set(error);
                }
            });
            writer.start();
            awaitTrue(() -> socket.statistics().ackedBytes() == 4096);
            writer.interrupt();
            writer.join();
            assertTrue(seen.get() instanceof InterruptedIOException, String.valueOf(seen.get()));
            assertThrows(SocketException.class, () -> socket.getOutputStream().write(1));
            over.countDown();
        }
    }

    @Test
    void anInterruptInReadLeavesTheConnection() throws Exception {
        try (FramedServer server = echo(); AlccSocket socket = connect(server)) {
            Thread.currentThread().interrupt();
            assertThrows(InterruptedIOException.class, () -> socket.getInputStream().read());
            assertFalse(Thread.interrupted());
            socket.getOutputStream().write(7);
            assertEquals(7, socket.getInputStream().read());
        }
    }

    @Test
    void closeFromAnotherThreadEndsWaitingOnes() throws Exception {
        CountDownLatch over = new CountDownLatch(1);
        try (FramedServer server = new FramedServer(4096, peer -> over.await())) {
            AlccSocket socket = connect(server);
            List<Throwable> seen = new java.util.concurrent.CopyOnWriteArrayList<>();
            Thread writer = new Thread(() -> seen.add(assertThrows(SocketException.class,
                    () -> socket.getOutputStream().write(new byte[1_000_000]))));
            Thread reader = new Thread(() -> seen.add(assertThrows(SocketException.class,
                    () -> socket.getInputStream().read())));
            writer.start();
            reader.start();
            awaitTrue(() -> socket.statistics().ackedBytes() == 4096);
            socket.setSoLinger(true, 0);
            socket.close();
            writer.join();
            reader.join();
            assertEquals(2, seen.size());
            over.countDown();
        }
    }

    @Test
    void timeoutsOfReadAreKept() throws Exception {
        try (FramedServer server = echo(); AlccSocket socket = connect(server)) {
            socket.setSoTimeout(20);
            assertThrows(SocketTimeoutException.class, () -> socket.getInputStream().read());
            socket.setSoTimeout(0);
            socket.getOutputStream().write(9);
            assertEquals(9, socket.getInputStream().read());
        }
    }

    @Test
    void smallWritesShareAPacketUntilFlushOrNoDelay() throws Exception {
        CountDownLatch read = new CountDownLatch(1);
        try (FramedServer server = new FramedServer(peer -> {
                peer.readAll();
                read.countDown();
            }); AlccSocket socket = connect(server)) {
            OutputStream out = socket.getOutputStream();
            for (int i = 0; i < 10_000; i++) {
                out.write(i);
            }
            out.flush();
            awaitTrue(() -> socket.statistics().ackedBytes() == 10_000);
            assertTrue(socket.statistics().sentPackets() < 5_000, socket.toString());
            long before = socket.statistics().sentPackets();
            socket.setTcpNoDelay(true);
            for (int i = 0; i < 4; i++) {
                out.write(i);
            }
            awaitTrue(() -> socket.statistics().ackedBytes() == 10_004);
            assertTrue(socket.statistics().sentPackets() > before);
        }
    }

    @Test
    void aListenerSeesFiguresAndTheEnd() throws Exception {
        List<AlccStatistics> seen = new java.util.concurrent.CopyOnWriteArrayList<>();
        Thread[] thread = new Thread[1];
        try (FramedServer server = echo(); AlccSocket socket = connect(server)) {
            socket.setListener(statistics -> {
                thread[0] = Thread.currentThread();
                seen.add(statistics);
            }, 1);
            socket.getOutputStream().write(new byte[50_000]);
            socket.shutdownOutput();
            assertEquals(50_000, socket.getInputStream().readAllBytes().length);
            awaitTrue(() -> !seen.isEmpty() && seen.get(seen.size() - 1).ackedBytes() == 50_000);
            assertThrows(IllegalArgumentException.class, () -> socket.setListener(null, 0));
        }
        assertEquals("alcc-listener", thread[0].getName());
    }

    // Servers that do not frame, or frame something else.

    private static ServerSocket raw(byte[] answer, AtomicLong connections) throws IOException {
        ServerSocket listener = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
        Thread thread = new Thread(() -> {
            try {
                while (true) {
                    Socket socket = listener.accept();
                    connections.incrementAndGet();
                    // Reads something, and answers; of a plain client too.
                    socket.getInputStream().read(new byte[1000]);
                    socket.getOutputStream().write(answer);
                    socket.close();
                }
            } catch (IOException closed) {
                // The test is over.
            }
        });
        thread.setDaemon(true);
        thread.start();
        return listener;
    }

    @Test
    void aServerThatDoesNotFrameIsConnectedToAgainWithoutAHello() throws Exception {
        AtomicLong connections = new AtomicLong();
        byte[] answer = "HTTP/1.1 400 Bad Request\r\n\r\n".getBytes("US-ASCII");
        try (ServerSocket listener = raw(answer, connections)) {
            AlccSocketFactory factory = new AlccSocketFactory(OPTIONS, listener.getLocalPort());
            for (int expected : new int[] {2, 3}) {
                try (AlccSocket socket = (AlccSocket) factory.createSocket()) {
                    socket.connect(listener.getLocalSocketAddress());
                    assertFalse(socket.statistics().isFramed());
                    socket.getOutputStream().write(1);
                    assertArrayEquals(answer, socket.getInputStream().readAllBytes());
                    assertEquals(expected, connections.get(), "known for an hour");
                }
            }
            AlccSocket strict = new AlccSocket(OPTIONS.plainFallback(false));
            AlccException error = assertThrows(AlccException.class,
                    () -> strict.connect(listener.getLocalSocketAddress()));
            assertEquals(Reason.PLAIN_PEER, error.reason());
            assertTrue(strict.isClosed());
        }
    }

    @Test
    void otherPortsGetNoHello() throws Exception {
        try (FramedServer server = echo();
                ServerSocket plain = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"))) {
            AlccSocketFactory factory = new AlccSocketFactory(OPTIONS, server.address().getPort());
            try (Socket socket = factory.createSocket("127.0.0.1", plain.getLocalPort()); Socket peer = plain.accept()) {
                socket.getOutputStream().write(42);
                assertEquals(42, peer.getInputStream().read(), "the first byte that came");
            }
            try (AlccSocket socket = (AlccSocket) factory.createSocket(server.address().getAddress(),
                    server.address().getPort())) {
                assertTrue(socket.statistics().isFramed());
            }
            assertThrows(IllegalArgumentException.class, () -> new AlccSocketFactory(OPTIONS));
        }
    }

    @Test
    void aSilentServerIsGivenUpInTime() throws Exception {
        try (ServerSocket listener = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"))) {
            AlccSocket socket = new AlccSocket(OPTIONS.answerWithin(50).plainFallback(false));
            AlccException error = assertThrows(AlccException.class,
                    () -> socket.connect(listener.getLocalSocketAddress()));
            assertEquals(Reason.NO_ANSWER, error.reason());
            try (AlccSocket plain = new AlccSocket(OPTIONS.answerWithin(50))) {
                plain.connect(listener.getLocalSocketAddress());
                assertFalse(plain.statistics().isFramed());
            }
        }
    }

    @Test
    void anotherVersionIsAnErrorAndNoPlainConnection() throws Exception {
        AtomicLong connections = new AtomicLong();
        for (Hello answer : new Hello[] {
            new Hello(2, true, 0, 1448, 52, 1 << 20, ""), new Hello(9, true, 1, 1448, 52, 1 << 20, ""),
            new Hello(1, true, 0, 1448, 52, 1 << 20, "sprout")
        }) {
            try (ServerSocket listener = raw(answer.toBytes(), connections)) {
                AlccSocket socket = new AlccSocket(OPTIONS);
                AlccException error = assertThrows(AlccException.class,
                        () -> socket.connect(listener.getLocalSocketAddress()));
                assertEquals(Reason.REFUSED, error.reason(), error.getMessage());
            }
        }
        assertEquals(3, connections.get());
    }

    @Test
    void itIsASocketBeforeAndAfter() throws Exception {
        AlccSocket socket = new AlccSocket(OPTIONS);
        assertFalse(socket.isConnected() || socket.isBound() || socket.isClosed());
        assertNull(socket.getInetAddress());
        assertNull(socket.getChannel());
        assertEquals(0, socket.getPort());
        assertEquals(-1, socket.getLocalPort());
        assertThrows(SocketException.class, socket::getInputStream);
        socket.setKeepAlive(true);
        socket.setSendBufferSize(100_000);
        try (FramedServer server = echo()) {
            socket.connect(server.address(), 5000);
            assertTrue(socket.isConnected() && socket.isBound() && socket.getKeepAlive());
            assertEquals(server.address(), socket.getRemoteSocketAddress());
            assertEquals(InetAddress.getByName("127.0.0.1"), socket.getLocalAddress());
            assertThrows(SocketException.class, () -> socket.connect(server.address()));
            assertThrows(SocketException.class, () -> socket.sendUrgentData(1));
            socket.close();
            socket.close();
            assertTrue(socket.isConnected() && socket.isClosed());
            assertThrows(SocketException.class, socket::getOutputStream);
            assertThrows(SocketException.class, () -> socket.setSoTimeout(1));
        }
        AlccSocket never = new AlccSocket(OPTIONS);
        never.close();
        assertThrows(SocketException.class, () -> never.connect(new InetSocketAddress("127.0.0.1", 1)));
    }

    @Test
    void hundredConnectionsHaveAThreadEach() throws Exception {
        many(100);
    }

    @Test
    void thousandConnectionsHaveAThreadEach() throws Exception {
        many(1000);
    }

    private static void many(int number) throws Exception {
        // One thread of the server's application for each, and one of its channel.
        CountDownLatch go = new CountDownLatch(1);
        AtomicLong got = new AtomicLong();
        try (FramedServer server = new FramedServer(peer -> {
                go.await();
                got.addAndGet(peer.readAll());
                peer.channel.write(new byte[] {1}, 0, 1);
            })) {
            List<AlccSocket> sockets = new ArrayList<>();
            for (int i = 0; i < number; i++) {
                sockets.add(connect(server));
            }
            awaitTrue(() -> threads().size() == 2 * number);
            for (AlccSocket socket : sockets) {
                socket.getOutputStream().write(new byte[10_000]);
                socket.shutdownOutput();
            }
            go.countDown();
            for (AlccSocket socket : sockets) {
                assertEquals(1, socket.getInputStream().read());
                assertEquals(-1, socket.getInputStream().read());
                socket.close();
            }
            assertEquals(10_000L * number, got.get());
            assertEquals(List.of(), server.failures);
        }
    }
}
