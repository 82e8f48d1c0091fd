package cellpace.alcc;

import cellpace.alcc.AlccException.Reason;

/**
 * The receiving half: what has arrived, and what is acknowledged. No I/O and no locks. Times are nanoseconds since the
 * connection began.
 */
final class Incoming {
    private final Ring inbox;
    /** The packet that has not come whole; 0: none. */
    private long partial;
    /** The newest packet that has. */
    private long number;
    private long arrivedAt;
    private boolean ended;
    private boolean unwanted;
    private long received;
    private long consumed;
    private long packets;
    /** The window that was told last. */
    private long told;
    private boolean unacked;
    private boolean ackDue;
    private long acks;

    Incoming(int limit) {
        inbox = new Ring(limit);
        told = limit;
    }

    /** A packet begins; 0 bytes: the end. */
    void onData(long now, long packet, int length) throws AlccException {
        if (length > told - received) {
            throw overrun();
        }
        if (length == 0) {
            ended = true;
            onPacket(now, packet);
        } else {
            partial = packet;
        }
    }

    /** Some data of the packet that began last. */
    void onBytes(long now, byte[] bytes, int at, int count, int left) throws AlccException {
        received += count;
        if (unwanted) {
            consumed += count;
        } else if (!inbox.push(bytes, at, count)) {
            throw overrun();
        }
        if (left == 0) {
            onPacket(now, partial);
        }
    }

    private void onPacket(long now, long packet) {
        number = packet;
        arrivedAt = now;
        unacked = true;
        packets++;
    }

    /** Everything that was there has been read: one ack for all. */
    void afterRead() {
        ackDue |= unacked;
        if (unwanted) {
            tellWindow();
        }
    }

    /** Takes at most as many bytes for the application, and says how many. */
    int read(byte[] to, int at, int count) {
        count = inbox.take(to, at, count);
        consumed += count;
        tellWindow();
        return count;
    }

    /** What comes is thrown away from now on, and so is what has come. */
    void discard() {
        unwanted = true;
        consumed += inbox.drop(inbox.length());
        tellWindow();
    }

    /** A window that was small, or has grown by a quarter, is news to the other end. */
    private void tellWindow() {
        long news = consumed + inbox.limit() - told;
        long left = told - received;
        ackDue |= news > 0 && !ended && (news >= left || 4 * news >= inbox.limit());
    }

    /** Writes the ack that is due, and says how many bytes it has; 0: none is. */
    int pollAck(long now, byte[] out) {
        if (!ackDue) {
            return 0;
        }
        told = consumed + inbox.limit();
        long held = number == 0 ? 0 : (now - arrivedAt) / 1000;
        Bytes.put(out, 0, 4, FrameDecoder.ACK_WORD);
        Bytes.put(out, 4, 8, number);
        Bytes.put(out, 12, 8, now / 1000);
        Bytes.put(out, 20, 4, Math.min(held, 0xffffffffL));
        Bytes.put(out, 24, 8, told);
        ackDue = false;
        unacked = false;
        acks++;
        return FrameDecoder.ACK_BYTES;
    }

    /** Whether the other end's stream has ended. */
    boolean isEnded() {
        return ended;
    }

    /** Whether everything that came is acknowledged. */
    boolean isAcked() {
        return !unacked;
    }

    int available() {
        return inbox.length();
    }

    /** Bytes of the stream that came. */
    long receivedBytes() {
        return received;
    }

    long receivedPackets() {
        return packets;
    }

    long acks() {
        return acks;
    }

    private static AlccException overrun() {
        return new AlccException(Reason.OVERRUN, "data beyond the window");
    }
}
