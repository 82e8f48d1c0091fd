package cellpace.alcc;

import cellpace.alcc.AlccException.Reason;

/** Both halves of an agreed connection over one stream. No I/O and no locks; times are nanoseconds since it began. */
final class Engine implements FrameDecoder.Pieces {
    final Outgoing outgoing;
    final Incoming incoming;
    private final FrameDecoder decoder = new FrameDecoder(this);
    private long now;

    Engine(Outgoing outgoing, Incoming incoming) {
        this.outgoing = outgoing;
        this.incoming = incoming;
    }

    /** Takes what one read of the connection gave. */
    void takeInput(long now, byte[] bytes, int at, int count) throws AlccException {
        this.now = now;
        decoder.take(bytes, at, count);
        incoming.afterRead();
    }

    /** The connection has no more bytes. */
    void takeEnd() throws AlccException {
        boolean whole = incoming.isEnded() && outgoing.isAcked() && decoder.isBetweenFrames();
        if (!whole) {
            throw new AlccException(Reason.TRUNCATED, "the connection ended before the stream did");
        }
    }

    /** Bytes behind the hello that were taken. */
    long offset() {
        return decoder.offset();
    }

    /** Whether nothing will be written any more. */
    boolean isDrained() {
        return outgoing.isSent() && incoming.isEnded() && incoming.isAcked();
    }

    @Override
    public void onData(long number, int length) throws AlccException {
        incoming.onData(now, number, length);
    }

    @Override
    public void onBytes(byte[] bytes, int at, int count, int left) throws AlccException {
        incoming.onBytes(now, bytes, at, count, left);
    }

    @Override
    public void onAck(long number, long clockMicros, long heldMicros, long window) throws AlccException {
        outgoing.onAck(now, number, clockMicros, window);
    }
}
