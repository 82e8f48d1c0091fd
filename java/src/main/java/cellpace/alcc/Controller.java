package cellpace.alcc;

/** When packets may leave. Times are nanoseconds since the connection began, sizes are bytes with all headers. */
interface Controller {
    /** Bytes that may leave now. */
    long permit(long inFlight);

    /** A packet leaves; {@code inFlight} has it. {@code starved}: nothing waits behind it. */
    void onSent(long now, int bytes, long inFlight, boolean starved);

    /** Packets were acknowledged: the largest RTT among them and that of the newest one. */
    void onAck(long now, long largestRtt, long newestRtt, long inFlight);

    /** Does what is due by now. */
    void onTime(long now);

    /** When something is due next; {@link Long#MAX_VALUE}: never. */
    long nextTime();

    /** The window, in bytes. */
    long window();
}
