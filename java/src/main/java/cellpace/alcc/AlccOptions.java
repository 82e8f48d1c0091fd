package cellpace.alcc;

import javax.net.SocketFactory;

/**
 * How connections behave. Each method returns changed options and leaves these as they are, so that they may be shared.
 */
public final class AlccOptions {
    private static final AlccOptions DEFAULTS = new AlccOptions();
    private static final int MIN_SEGMENT = 64;
    private static final int MAX_SEGMENT = 0xffff;
    private static final int MIN_INCOMING = 4096;
    private static final int MAX_INCOMING = 1 << 28;

    private FlatTable table;
    private long seed = 1;
    private int segment = 1448;
    private int overhead = 52;
    private int incoming = 1 << 20;
    private int answerWithin = 10_000;
    private boolean plainFallback = true;
    private SocketFactory sockets = SocketFactory.getDefault();
    private int fixedWindow;

    private AlccOptions() {}

    private AlccOptions(AlccOptions other) {
        table = other.table;
        seed = other.seed;
        segment = other.segment;
        overhead = other.overhead;
        incoming = other.incoming;
        answerWithin = other.answerWithin;
        plainFallback = other.plainFallback;
        sockets = other.sockets;
        fixedWindow = other.fixedWindow;
    }

    /**
     * The built-in table, packets for an MTU of 1500 bytes, 1 MiB to be read, 10 s for the answer to the hello, and plain TCP
     * where there is none.
     *
     * @return the defaults
     */
    public static AlccOptions defaults() {
        return DEFAULTS;
    }

    /**
     * The table that decides what is sent when; {@link FlatTable#builtIn()} unless another one is set.
     *
     * @param table the table
     * @return the changed options
     */
    public AlccOptions table(FlatTable table) {
        if (table == null) {
            throw new IllegalArgumentException("no table");
        }
        AlccOptions changed = new AlccOptions(this);
        changed.table = table;
        return changed;
    }

    /**
     * The seed of the walk's random numbers: with the same delays, the same seed gives the same windows. 1 unless another one
     * is set.
     *
     * @param seed any number
     * @return the changed options
     */
    public AlccOptions seed(long seed) {
        AlccOptions changed = new AlccOptions(this);
        changed.seed = seed;
        return changed;
    }

    /**
     * What a full packet holds. It should fill one TCP segment of the path: less costs headers, more makes two segments of
     * each packet. Over IPv6, 20 bytes move from the first to the second number by themselves.
     *
     * @param segment TCP payload of a full packet over IPv4, in bytes, 84 to 65535: 1448 is what an MTU of 1500 leaves
     * @param overhead headers of IP and TCP below that, in bytes, 0 to 65515: 52 with TCP's time stamps
     * @return the changed options
     */
    public AlccOptions segment(int segment, int overhead) {
        if (segment < MIN_SEGMENT + 20 || segment > MAX_SEGMENT) {
            throw new IllegalArgumentException("a segment of " + segment + " bytes, not of 84 to 65535");
        }
        if (overhead < 0 || overhead > MAX_SEGMENT - 20) {
            throw new IllegalArgumentException("an overhead of " + overhead + " bytes, not of 0 to 65515");
        }
        AlccOptions changed = new AlccOptions(this);
        changed.segment = segment;
        changed.overhead = overhead;
        return changed;
    }

    /**
     * How much of what the other end sends may wait to be read, and so be under way at most: at least the path's rate times
     * its RTT. Memory is taken when it is needed. 1 MiB unless another size is set.
     *
     * @param bytes 4096 to 2^28
     * @return the changed options
     */
    public AlccOptions incoming(int bytes) {
        if (bytes < MIN_INCOMING || bytes > MAX_INCOMING) {
            throw new IllegalArgumentException(bytes + " bytes to be read, not 4096 to 2^28");
        }
        AlccOptions changed = new AlccOptions(this);
        changed.incoming = bytes;
        return changed;
    }

    /**
     * How long {@code connect} waits for the answer to the hello, within its own timeout. 10 s unless another time is set.
     *
     * @param milliseconds at least 1
     * @return the changed options
     */
    public AlccOptions answerWithin(int milliseconds) {
        if (milliseconds < 1) {
            throw new IllegalArgumentException("an answer within " + milliseconds + " ms");
        }
        AlccOptions changed = new AlccOptions(this);
        changed.answerWithin = milliseconds;
        return changed;
    }

    /**
     * Whether a server that gives no answer, or one that is none, is connected to again as by an ordinary socket. Yes unless
     * this says no; then {@code connect} fails.
     *
     * @param allowed whether it is
     * @return the changed options
     */
    public AlccOptions plainFallback(boolean allowed) {
        AlccOptions changed = new AlccOptions(this);
        changed.plainFallback = allowed;
        return changed;
    }

    /**
     * Where the sockets below come from: on Android {@code Network.getSocketFactory()} chooses the mobile network or Wi-Fi.
     *
     * @param sockets makes unconnected TCP sockets
     * @return the changed options
     */
    public AlccOptions sockets(SocketFactory sockets) {
        if (sockets == null || sockets instanceof AlccSocketFactory) {
            throw new IllegalArgumentException("the sockets below have to be ordinary ones");
        }
        AlccOptions changed = new AlccOptions(this);
        changed.sockets = sockets;
        return changed;
    }

    /** A window of so many packets in place of a table, for tests. */
    AlccOptions fixedWindow(int packets) {
        AlccOptions changed = new AlccOptions(this);
        changed.fixedWindow = packets;
        return changed;
    }

    Controller controller(int mss) {
        if (fixedWindow > 0) {
            return new FixedWindow((long) fixedWindow * mss);
        }
        return new MarkovController(table == null ? FlatTable.builtIn() : table, seed, mss);
    }

    int segment() {
        return segment;
    }

    int overhead() {
        return overhead;
    }

    int incoming() {
        return incoming;
    }

    int answerWithin() {
        return answerWithin;
    }

    boolean plainFallback() {
        return plainFallback;
    }

    SocketFactory sockets() {
        return sockets;
    }
}
