package cellpace.alcc;

/**
 * Figures of a connection at one time. Sizes are in bytes of the application's stream, without headers, unless said
 * otherwise; times are in microseconds.
 */
public final class AlccStatistics {
    private final boolean framed;
    private final long sentBytes;
    private final long ackedBytes;
    private final long receivedBytes;
    private final long sentPackets;
    private final long ackedPackets;
    private final long receivedPackets;
    private final long sentAcks;
    private final long receivedAcks;
    private final long inFlightBytes;
    private final long windowBytes;
    private final long lastRttMicros;
    private final long smoothedRttMicros;
    private final long minRttMicros;
    private final long silenceMicros;
    private final long ageMicros;

    /** Of a connection that is plain, or none yet. */
    AlccStatistics() {
        framed = false;
        sentBytes = 0;
        ackedBytes = 0;
        receivedBytes = 0;
        sentPackets = 0;
        ackedPackets = 0;
        receivedPackets = 0;
        sentAcks = 0;
        receivedAcks = 0;
        inFlightBytes = 0;
        windowBytes = 0;
        lastRttMicros = -1;
        smoothedRttMicros = -1;
        minRttMicros = -1;
        silenceMicros = 0;
        ageMicros = 0;
    }

    AlccStatistics(Outgoing outgoing, Incoming incoming, long now) {
        framed = true;
        sentBytes = outgoing.sentBytes();
        ackedBytes = outgoing.ackedBytes();
        receivedBytes = incoming.receivedBytes();
        sentPackets = outgoing.sentPackets();
        ackedPackets = outgoing.ackedPackets();
        receivedPackets = incoming.receivedPackets();
        sentAcks = incoming.acks();
        receivedAcks = outgoing.acks();
        inFlightBytes = outgoing.inFlight();
        windowBytes = outgoing.controllerWindow();
        lastRttMicros = micros(outgoing.lastRtt());
        smoothedRttMicros = micros(outgoing.smoothedRtt());
        minRttMicros = micros(outgoing.minRtt());
        silenceMicros = micros(outgoing.silence(now));
        ageMicros = micros(now);
    }

    private static long micros(long nanos) {
        return nanos < 0 ? -1 : nanos / 1000;
    }

    /**
     * Whether both ends carry acks inside the stream. If not, all other figures are 0 or -1, as nothing is known.
     *
     * @return whether there are figures
     */
    public boolean isFramed() {
        return framed;
    }

    /**
     * What was given to TCP.
     *
     * @return bytes
     */
    public long sentBytes() {
        return sentBytes;
    }

    /**
     * What the other end has acknowledged: the progress of an upload. It has reached {@code cellpace} there, and not
     * necessarily the application behind it.
     *
     * @return bytes
     */
    public long ackedBytes() {
        return ackedBytes;
    }

    /**
     * What came from the other end, read or not.
     *
     * @return bytes
     */
    public long receivedBytes() {
        return receivedBytes;
    }

    /**
     * Packets that were given to TCP, the end of the stream included.
     *
     * @return a number of packets
     */
    public long sentPackets() {
        return sentPackets;
    }

    /**
     * Packets that were acknowledged.
     *
     * @return a number of packets
     */
    public long ackedPackets() {
        return ackedPackets;
    }

    /**
     * Packets that came whole.
     *
     * @return a number of packets
     */
    public long receivedPackets() {
        return receivedPackets;
    }

    /**
     * Acks that were written.
     *
     * @return a number of acks
     */
    public long sentAcks() {
        return sentAcks;
    }

    /**
     * Acks that came.
     *
     * @return a number of acks
     */
    public long receivedAcks() {
        return receivedAcks;
    }

    /**
     * What was given to TCP and is not acknowledged, headers included.
     *
     * @return bytes
     */
    public long inFlightBytes() {
        return inFlightBytes;
    }

    /**
     * The controller's window, headers included.
     *
     * @return bytes
     */
    public long windowBytes() {
        return windowBytes;
    }

    /**
     * The RTT of the newest packet that was acknowledged, from giving its first byte to TCP until its ack.
     *
     * @return microseconds; -1 before the first ack
     */
    public long lastRttMicros() {
        return lastRttMicros;
    }

    /**
     * The RTT smoothed as in RFC 6298, once per ack.
     *
     * @return microseconds; -1 before the first ack
     */
    public long smoothedRttMicros() {
        return smoothedRttMicros;
    }

    /**
     * The smallest RTT. The last one less this one is about the delay in queues.
     *
     * @return microseconds; -1 before the first ack
     */
    public long minRttMicros() {
        return minRttMicros;
    }

    /**
     * For how long packets have been in flight without an ack: more than a few RTTs is an outage.
     *
     * @return microseconds; 0 while nothing is in flight
     */
    public long silenceMicros() {
        return silenceMicros;
    }

    /**
     * The time since both ends agreed.
     *
     * @return microseconds
     */
    public long ageMicros() {
        return ageMicros;
    }

    @Override
    public String toString() {
        if (!framed) {
            return "plain TCP";
        }
        return "acked " + ackedBytes + " of " + sentBytes + " bytes, received " + receivedBytes + ", in flight "
                + inFlightBytes + " of " + windowBytes + ", RTT " + lastRttMicros + " us, at least " + minRttMicros + " us";
    }
}
