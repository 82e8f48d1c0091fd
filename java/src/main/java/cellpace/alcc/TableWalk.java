package cellpace.alcc;

/**
 * The guided random walk over a table: a delay in, a window out, once per epoch. docs/mdi-format.md says each step in
 * words; `vectors/mdi-*.json` holds walks that every runtime must repeat. Windows are in 1/65536 packets, delays in
 * microseconds, all numbers below 2^63.
 */
final class TableWalk {
    static final long ONE_PACKET = 1 << 16;

    private static final long MAX_WINDOW = 0xffffffffL;
    /** log10 of 65536, in 1/65536. */
    private static final long LOG_ONE_PACKET = 315_653;
    private static final int KEEP = -2;
    private static final int COLLAPSE = -1;
    private static final long MAX_BASE = 1L << 48;

    private final FlatTable table;
    private long random;
    private long w = 10 * ONE_PACKET;
    private long w1 = w;
    private long w2 = w;
    /** The last two delays; 0: none. */
    private long d1;
    private long d2;
    /** The delay of the last epoch as an index; -1: none. */
    private int bin = -1;
    /** The base delay in 1/256 us. */
    private long base;

    TableWalk(FlatTable table, long seed) {
        this.table = table;
        random = seed == 0 ? 0x9e3779b97f4a7c15L : seed;
        if (table.kind == FlatTable.ABSOLUTE) {
            w = clamped(10) << 16;
        }
    }

    /** The window. */
    long window() {
        return w;
    }

    /**
     * One epoch.
     *
     * @param delay the largest RTT acked in it, or, with {@code acked} false, the larger of the last such delay and
     *     the time since the last ack; below 2^32
     */
    void step(long delay, boolean acked) {
        switch (table.kind) {
            case FlatTable.ABSOLUTE:
                stepAbsolute(delay);
                break;
            case FlatTable.RELATIVE:
                stepRelative(delay, acked);
                break;
            default:
                stepLevels(delay, acked);
        }
    }

    /** Packets that may leave after an epoch: "What leaves" of the description. */
    long release(long credit, long inFlight, long epochs) {
        long window = w >> 16;
        if (table.kind == FlatTable.ABSOLUTE) {
            return window;
        }
        long kept = epochs < 2 ? inFlight : inFlight * (epochs - 2) / (epochs - 1);
        return Math.min(credit + Math.max(window - kept, 0), window);
    }

    /** Sets the window from which the walk goes on; {@code forget}: as if it had been so before. */
    void setWindow(long window, boolean forget) {
        if (table.kind == FlatTable.ABSOLUTE) {
            w = clamped(window >> 16) << 16;
            return;
        }
        window = Math.max(window, ONE_PACKET);
        if (table.kind == FlatTable.LEVELS) {
            w1 = forget ? window : w;
        } else {
            w1 = window;
            w2 = forget ? window : w2;
        }
        w = window;
    }

    private void stepAbsolute(long delay) {
        long ms = Math.max(table.delayMin, Math.min(table.delayMax, delay / 1000));
        int now = (int) ((ms - table.delayMin) / table.delayStep);
        int before = bin < 0 ? now : bin;
        int found = find(before * table.windows + (int) (w >> 16) - table.windowMin, now);
        bin = now;
        if (found == COLLAPSE) {
            w = clamped(1) << 16;
        } else if (found != KEEP) {
            w = (long) (table.windowMin + draw(found)) << 16;
        }
    }

    private void stepRelative(long delay, boolean acked) {
        if (d1 == 0) {
            d1 = delay;
            d2 = delay;
        }
        long by = delayChange(delay, d1);
        if (by > table.delayMax) {
            w = w * table.riseFactor >> 16;
        } else if (by < table.delayMin) {
            w = Math.min(w + table.fallAdds, MAX_WINDOW);
        } else {
            int row = delayIndex(delayChange(d1, d2)) * table.windows + windowIndex(windowChange(w1, w2));
            int found = find(row, delayIndex(by));
            w = found == COLLAPSE ? ONE_PACKET : found == KEEP ? w1 : moved(w1, found);
        }
        w = Math.max(Math.min(w, MAX_WINDOW), ONE_PACKET);
        if (acked) {
            d2 = d1;
            d1 = delay;
        }
        w2 = w1;
        w1 = w;
    }

    private void stepLevels(long delay, boolean acked) {
        // Far above what is used of it, so that a long silence does not overflow.
        base = Math.min(base + (base >> 15), MAX_BASE);
        if (acked) {
            long sample = Math.max(delay, 1000) << 8;
            base = base == 0 ? sample : Math.min(base, sample);
        }
        long whole = Math.min(base >> 8, 0xffffffffL);
        long logBase = whole == 0 ? 0 : table.log10(whole);
        long above = Math.max(table.log10(Math.max(Math.max(delay, whole), 1)) - logBase, 0);
        int now = delayIndex((above * 1000 + (1 << 15)) >> 16);
        int before = bin < 0 ? now : bin;
        int found = find(before * table.windows + windowIndex(windowChange(w, w1)), now);
        bin = now;
        w1 = w;
        if (found == COLLAPSE) {
            w = ONE_PACKET;
        } else if (found != KEEP) {
            w = moved(w, found);
        }
    }

    /** The origin to draw from, or what is done without one: "Which origin" of the description. */
    private int find(int state, int delay) {
        int first = table.firstOrigin(delay);
        int end = table.endOrigin(delay);
        int after = table.originAbove(state, first, end);
        int group = state / table.windows;
        int below = after - 1;
        boolean isBelow = after > first;
        if (table.empty == FlatTable.CODE) {
            boolean known = isBelow && (table.origin(below) == state || table.origin(below) > 0);
            return known ? below : COLLAPSE;
        }
        if (isBelow && table.origin(below) / table.windows == group) {
            return below;
        }
        if (table.empty == FlatTable.PAPER) {
            return KEEP;
        }
        if (after < end && table.origin(after) / table.windows == group) {
            return after;
        }
        return nearest(state % table.windows, group, first, end);
    }

    /** The same window at the nearest delay, the larger of two. The origins by window are in its order. */
    private int nearest(int window, int group, int first, int last) {
        int end = last;
        while (first < end) {
            int middle = (first + end) >>> 1;
            if (table.origin(table.originByWindow(middle)) % table.windows < window) {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
        int found = KEEP;
        int best = Integer.MAX_VALUE;
        for (int i = first; i < last; i++) {
            int origin = table.originByWindow(i);
            int state = table.origin(origin);
            int distance = Math.abs(state / table.windows - group);
            if (state % table.windows != window || distance > best) {
                break;
            }
            best = distance;
            found = origin;
        }
        return found;
    }

    private int draw(int origin) {
        return table.windowOf(origin, bits());
    }

    /** The upper half of xorshift64*. */
    private long bits() {
        random ^= random >>> 12;
        random ^= random << 25;
        random ^= random >>> 27;
        return random * 0x2545f4914f6cdd1dL >>> 32;
    }

    private long clamped(long packets) {
        return Math.max(table.windowMin, Math.min(table.windowMax, packets));
    }

    /** The window after the change that is drawn. */
    private long moved(long from, int origin) {
        long by = table.windowMin + (long) draw(origin) * table.windowStep;
        from = Math.max(from, ONE_PACKET);
        if (by == 0) {
            return from;
        }
        long log = table.log10(from == ONE_PACKET ? 2 * from : from) - LOG_ONE_PACKET;
        long limit = (by < 0 ? 50L : 100L) << 16;
        long size = Math.abs(by);
        // From 2^30 on the quotient is above the limit whatever the logarithm, and the shift might overflow.
        long percent = log <= 0 || size >= 1 << 30 ? limit : Math.min((size << 32) / (log * 1000), limit);
        long step = (from * percent / 100 + (1 << 15)) >> 16;
        return Math.max(by < 0 ? from - step : Math.min(from + step, MAX_WINDOW), ONE_PACKET);
    }

    private long delayChange(long now, long before) {
        before = Math.max(before, 1000);
        return change(Math.max(now, 1000), before, Math.max(table.log10(before) - (3 << 16), 0));
    }

    private long windowChange(long now, long before) {
        before = Math.max(before, ONE_PACKET);
        return change(Math.max(now, ONE_PACKET), before, Math.max(table.log10(before) - LOG_ONE_PACKET, 0));
    }

    /** Relative change times the logarithm, in thousandths: eq. of docs/mdi-format.md, "a change of a value". */
    private static long change(long now, long before, long log) {
        long ratio = Math.min((now * 10_000 + before / 2) / before, 10_000_000);
        long size = (Math.abs(ratio - 10_000) * log * 10 + (1 << 15)) >> 16;
        return ratio < 10_000 ? -size : size;
    }

    private int delayIndex(long value) {
        return index(value, table.delayMin, table.delayMax, table.delayStep);
    }

    private int windowIndex(long value) {
        return index(value, table.windowMin, table.windowMax, table.windowStep);
    }

    /** The nearest multiple of the step, half to even, taken into the range, as an index. */
    private static int index(long value, long low, long high, long step) {
        long size = Math.abs(value);
        long whole = size / step;
        long rest = size % step;
        if (2 * rest > step || 2 * rest == step && whole % 2 == 1) {
            whole++;
        }
        long rounded = value < 0 ? -whole * step : whole * step;
        return (int) ((Math.max(low, Math.min(high, rounded)) - low) / step);
    }
}
