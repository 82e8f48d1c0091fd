package cellpace.alcc;

import cellpace.alcc.AlccException.Reason;

/**
 * The sending half: cuts a stream into packets as the controller allows, and works in their acks. TCP delivers everything in
 * order, so that nothing is lost or sent again. No I/O, no locks, and no memory taken per packet. Times are nanoseconds
 * since the connection began.
 */
final class Outgoing {
    /** Packets in flight at most, whatever the controller allows. */
    private static final int MAX_IN_FLIGHT = 1 << 16;

    private final Controller controller;
    /** Data of a full packet, in bytes. */
    private final int full;
    /** What a packet counts for beside its data, in bytes. */
    private final int headers;
    /** The packet that comes next: room for its header, then its data so far. */
    private final byte[] packet;
    private int filled;
    /** Of the data, what left with the packet that {@link #poll} gave. */
    private int leaving;

    private boolean endWanted;
    private boolean endSent;
    private boolean endAcked;

    /** When packets left, and their data in bytes: a ring of a power of two, by number. */
    private long[] sentAt = new long[64];
    private int[] lengths = new int[64];
    private long sent;
    private long acked;
    private long inFlight;

    private long window;
    /** As it came, without sign. */
    private long lastWindow;
    private long lastClock;

    private long sentBytes;
    private long ackedBytes;
    private long acks;
    private long ackedAt;
    private long lastRtt = -1;
    private long smoothedRtt = -1;
    private long minRtt = -1;

    Outgoing(Controller controller, int segment, int overhead, long window) {
        this.controller = controller;
        full = segment - FrameDecoder.HEADER_BYTES;
        headers = FrameDecoder.HEADER_BYTES + overhead;
        packet = new byte[segment];
        lastWindow = window;
        this.window = withoutSign(window);
    }

    /** Takes as much as the packet has room for, and says how much. */
    int fill(byte[] bytes, int at, int count) {
        count = Math.min(count, full - filled);
        System.arraycopy(bytes, at, packet, FrameDecoder.HEADER_BYTES + filled, count);
        filled += count;
        return count;
    }

    boolean isEmpty() {
        return filled == 0;
    }

    boolean isFull() {
        return filled == full;
    }

    /** The stream ends with what was filled in. */
    void finish() {
        endWanted = true;
    }

    /** Whether everything has left, the end included. */
    boolean isSent() {
        return endSent;
    }

    /** Whether everything has arrived, the end included. */
    boolean isAcked() {
        return endAcked;
    }

    /** Where {@link #poll} puts a packet. */
    byte[] packet() {
        return packet;
    }

    /**
     * Puts the header in front of the packet that may leave now, and counts it as sent. After it was given to TCP, {@link
     * #onGiven} has to follow before anything else.
     *
     * @param more whether the application has more data at hand
     * @return the packet's bytes, 0: none may leave
     */
    int poll(long now, boolean more) {
        controller.onTime(now);
        int length = nextLength();
        if (length < 0 || !mayLeave(length)) {
            return 0;
        }
        Bytes.put(packet, 0, 4, length);
        Bytes.put(packet, 4, 8, sent + 1);
        remember(now, length);
        boolean rest = (more || length < filled) && sentBytes < window;
        controller.onSent(now, headers + length, inFlight, !rest);
        leaving = length;
        endSent = length == 0;
        return FrameDecoder.HEADER_BYTES + length;
    }

    /** Data of the packet that comes next; 0: the end of the stream, negative: there is none. */
    private int nextLength() {
        if (endSent || sent - acked >= MAX_IN_FLIGHT) {
            return -1;
        }
        if (filled == 0) {
            return endWanted ? 0 : -1;
        }
        int allowed = (int) Math.min(filled, window - sentBytes);
        return allowed > 0 ? allowed : -1;
    }

    /** The last packet and the end never wait: who closes does not stay to send them later. */
    private boolean mayLeave(int length) {
        return endWanted || controller.permit(inFlight) >= headers + length;
    }

    private void remember(long now, int length) {
        if (sent - acked == sentAt.length) {
            grow();
        }
        if (inFlight == 0) {
            ackedAt = now;
        }
        int at = (int) sent & sentAt.length - 1;
        sentAt[at] = now;
        lengths[at] = length;
        sent++;
        sentBytes += length;
        inFlight += headers + length;
    }

    private void grow() {
        int old = sentAt.length;
        long[] times = new long[2 * old];
        int[] sizes = new int[2 * old];
        for (long number = acked; number < sent; number++) {
            times[(int) number & 2 * old - 1] = sentAt[(int) number & old - 1];
            sizes[(int) number & 2 * old - 1] = lengths[(int) number & old - 1];
        }
        sentAt = times;
        lengths = sizes;
    }

    /** The packet is TCP's now. */
    void onGiven() {
        int rest = filled - leaving;
        if (rest > 0) {
            int start = FrameDecoder.HEADER_BYTES;
            System.arraycopy(packet, start + leaving, packet, start, rest);
        }
        filled = rest;
        leaving = 0;
    }

    /** An ack came; its numbers have no sign. */
    void onAck(long now, long number, long clock, long newWindow) throws AlccException {
        if (Bytes.isBelow(sent, number)) {
            throw new AlccException(Reason.ACK, "an ack covers a packet that was not sent");
        }
        boolean back = number < acked || Bytes.isBelow(clock, lastClock) || Bytes.isBelow(newWindow, lastWindow);
        if (back) {
            throw new AlccException(Reason.ACK, "an ack goes back");
        }
        lastClock = clock;
        lastWindow = newWindow;
        window = withoutSign(newWindow);
        acks++;
        if (number > acked) {
            takeAcked(now, number);
        }
    }

    private void takeAcked(long now, long number) {
        long largest = now - sentAt[(int) acked & sentAt.length - 1];
        for (; acked < number; acked++) {
            int at = (int) acked & sentAt.length - 1;
            lastRtt = now - sentAt[at];
            ackedBytes += lengths[at];
            inFlight -= headers + lengths[at];
        }
        ackedAt = now;
        measure();
        // Packets leave in order, so the oldest has the largest RTT.
        controller.onAck(now, largest, lastRtt, inFlight);
        endAcked = endSent && acked == sent;
    }

    /** RFC 6298's smoothing, once per ack. */
    private void measure() {
        smoothedRtt = smoothedRtt < 0 ? lastRtt : smoothedRtt + (lastRtt - smoothedRtt) / 8;
        minRtt = minRtt < 0 ? lastRtt : Math.min(minRtt, lastRtt);
    }

    private static long withoutSign(long number) {
        return number < 0 ? Long.MAX_VALUE : number;
    }

    /** When the controller may allow more without an ack; {@link Long#MAX_VALUE}: only with one. */
    long nextTime() {
        return window > sentBytes || filled == 0 ? controller.nextTime() : Long.MAX_VALUE;
    }

    /** Bytes in flight, with all headers. */
    long inFlight() {
        return inFlight;
    }

    long sentPackets() {
        return sent;
    }

    /** Bytes of the stream that left. */
    long sentBytes() {
        return sentBytes;
    }

    /** Bytes of the stream that the other end has acknowledged. */
    long ackedBytes() {
        return ackedBytes;
    }

    long ackedPackets() {
        return acked;
    }

    long acks() {
        return acks;
    }

    long controllerWindow() {
        return controller.window();
    }

    /** -1: none has been measured. */
    long lastRtt() {
        return lastRtt;
    }

    long smoothedRtt() {
        return smoothedRtt;
    }

    long minRtt() {
        return minRtt;
    }

    /** For how long packets have been in flight without an ack. */
    long silence(long now) {
        return inFlight == 0 ? 0 : now - ackedAt;
    }
}
