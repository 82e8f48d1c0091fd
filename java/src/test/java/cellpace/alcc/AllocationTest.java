package cellpace.alcc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import org.junit.jupiter.api.Test;

/** Once a connection has run for a while, nothing is allocated for packets and acks. */
class AllocationTest {
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    private static Engine engine(boolean walks) {
        Controller controller = walks ? new MarkovController(FlatTable.builtIn(), 1, 1500) : new FixedWindow(90_000);
        return new Engine(new Outgoing(controller, 1448, 52, 100_000), new Incoming(100_000));
    }

    /** Two ends without sockets: data one way, acks the other, on this thread. */
    @Test
    void packetsAndAcksOfTheStateMachineTakeNoMemory() {
        Engine client = engine(true);
        Engine server = engine(false);
        byte[] data = new byte[3000];
        byte[] ack = new byte[FrameDecoder.ACK_BYTES];
        byte[] sink = new byte[4096];
        long now = 0;
        for (int round = 0; round < 20_000; round++) {
            now = exchange(client, server, data, ack, sink, now);
        }
        long packets = client.outgoing.ackedPackets();
        long before = THREADS.getThreadAllocatedBytes(Thread.currentThread().getId());
        for (int round = 0; round < 100_000; round++) {
            now = exchange(client, server, data, ack, sink, now);
        }
        long allocated = THREADS.getThreadAllocatedBytes(Thread.currentThread().getId()) - before;
        packets = client.outgoing.ackedPackets() - packets;
        assertTrue(packets > 50_000, packets + " packets");
        // What the measurement itself takes.
        assertTrue(allocated < 1000, allocated + " bytes for " + packets + " packets");
    }

    private static long exchange(Engine client, Engine server, byte[] data, byte[] ack, byte[] sink, long now) {
        now += 700_000;
        client.outgoing.fill(data, 0, data.length);
        int count = client.outgoing.poll(now, true);
        try {
            if (count > 0) {
                server.takeInput(now + 20_000_000, client.outgoing.packet(), 0, count);
                client.outgoing.onGiven();
            }
            while (server.incoming.read(sink, 0, sink.length) > 0) {
                // Read by its application.
            }
            if (server.incoming.pollAck(now + 20_000_000, ack) > 0) {
                client.takeInput(now + 40_000_000, ack, 0, ack.length);
            }
        } catch (AlccException impossible) {
            throw new AssertionError(impossible);
        }
        return now;
    }

    /** The same through sockets: the application's thread, and the readers of both ends. */
    @Test
    void uploadsTakeNoMemoryForEachPacket() throws Exception {
        try (FramedServer server = new FramedServer(1 << 16, FramedServer.Peer::readAll);
                AlccSocket socket = new AlccSocket(AlccOptions.defaults())) {
            socket.connect(server.address());
            OutputStream out = socket.getOutputStream();
            byte[] data = new byte[8192];
            for (int i = 0; i < 2000; i++) {
                out.write(data);
            }
            long[] threads = threads();
            long packets = socket.statistics().ackedPackets();
            long before = allocated(threads);
            for (int i = 0; i < 4000; i++) {
                out.write(data);
            }
            long allocated = allocated(threads) - before;
            packets = socket.statistics().ackedPackets() - packets;
            assertTrue(packets > 10_000, packets + " packets");
            System.out.println(allocated + " bytes for " + packets + " packets");
            // The system's sockets and the measurement take some kilobytes, whatever the number of packets.
            assertTrue(allocated < packets, allocated + " bytes for " + packets + " packets");
            socket.shutdownOutput();
            assertEquals(-1, socket.getInputStream().read());
        }
    }

    private static long[] threads() {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread == Thread.currentThread() || thread.getName().equals("alcc-reader"))
                .mapToLong(Thread::getId).toArray();
    }

    private static long allocated(long[] threads) {
        long all = 0;
        for (long thread : threads) {
            all += THREADS.getThreadAllocatedBytes(thread);
        }
        return all;
    }
}
