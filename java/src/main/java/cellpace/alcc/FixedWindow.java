package cellpace.alcc;

/** A window that does not change, for tests. */
final class FixedWindow implements Controller {
    private final long bytes;

    FixedWindow(long bytes) {
        this.bytes = bytes;
    }

    @Override
    public long permit(long inFlight) {
        return Math.max(bytes - inFlight, 0);
    }

    @Override
    public void onSent(long now, int size, long inFlight, boolean starved) {}

    @Override
    public void onAck(long now, long largestRtt, long newestRtt, long inFlight) {}

    @Override
    public void onTime(long now) {}

    @Override
    public long nextTime() {
        return Long.MAX_VALUE;
    }

    @Override
    public long window() {
        return bytes;
    }
}
