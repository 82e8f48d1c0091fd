package cellpace.alcc;

/**
 * What a flow needs around the walk: the largest delay per epoch, and how much of a window leaves when. Nothing is ever
 * lost above TCP, so there are no losses and no timeouts. `vectors/mdi-flow.json` holds flows that every runtime must repeat.
 */
final class MarkovController implements Controller {
    private static final long MAX_MICROS = 0xffffffffL;

    private final TableWalk walk;
    private final boolean absolute;
    private final long mss;
    /** Length of an epoch. */
    private final long epoch;
    /** When the present epoch ends. */
    private long next;
    /** Packets that may still leave. */
    private long credit;
    private boolean starved;
    private long inFlight;
    /** The last ack, or the first packet sent into silence. */
    private long quietSince;
    private boolean hasRtt;
    private long lastRtt;
    /** Largest RTT acked since the last epoch; -1: none. */
    private long epochRtt = -1;
    /** Largest RTT of the last epoch that had any. */
    private long delay;

    MarkovController(FlatTable table, long seed, int mss) {
        walk = new TableWalk(table, seed);
        absolute = table.kind == FlatTable.ABSOLUTE;
        this.mss = mss;
        epoch = table.epochMicros * 1000L;
        next = epoch;
        credit = Math.max(walk.window() >> 16, 1);
    }

    @Override
    public long permit(long inFlight) {
        return credit * mss;
    }

    @Override
    public void onSent(long now, int bytes, long inFlight, boolean starved) {
        if (inFlight <= bytes) {
            quietSince = now;
        }
        this.inFlight = inFlight;
        this.starved = starved;
        credit = Math.max(credit - 1, 0);
    }

    @Override
    public void onAck(long now, long largestRtt, long newestRtt, long inFlight) {
        epochRtt = Math.max(epochRtt, largestRtt);
        lastRtt = newestRtt;
        hasRtt = true;
        quietSince = now;
        this.inFlight = inFlight;
    }

    @Override
    public void onTime(long now) {
        if (now < next) {
            return;
        }
        // The grid stays where it began; epochs that nobody looked at are one.
        next = epoch * (now / epoch + 1);
        boolean idle = inFlight == 0 && credit > 0 && epochRtt < 0;
        if (hasRtt && !idle) {
            runEpoch(now);
        }
    }

    private void runEpoch(long now) {
        boolean acked = epochRtt >= 0;
        // With nothing acked the silence counts, and grows with every epoch.
        long silence = inFlight == 0 ? 0 : now - quietSince;
        long seen = acked ? epochRtt : Math.max(delay, silence);
        delay = acked ? epochRtt : delay;
        epochRtt = -1;
        walk.step(Math.min(seen / 1000, MAX_MICROS), acked);
        // What is left over is spent at once by a sender that has data; others do not save it up.
        credit = walk.release(starved ? 0 : credit, packets(inFlight), epochsIn(lastRtt));
        if (inFlight == 0) {
            // Without a packet there is no ack, and the walk would learn nothing for ever.
            credit = Math.max(credit, 1);
        }
    }

    private long packets(long bytes) {
        return (bytes + mss - 1) / mss;
    }

    private long epochsIn(long time) {
        return (time + epoch - 1) / epoch;
    }

    @Override
    public long nextTime() {
        return next;
    }

    /** The window, or, where the table sets the packets of an epoch, the equivalent in a round trip. */
    @Override
    public long window() {
        long epochs = absolute ? Math.max(epochsIn(lastRtt), 1) : 1;
        return (walk.window() * epochs >> 8) * mss >> 8;
    }

    /** The window of the walk, in 1/65536 packets. */
    long walkWindow() {
        return walk.window();
    }

    long credit() {
        return credit;
    }
}
