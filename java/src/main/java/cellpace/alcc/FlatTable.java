package cellpace.alcc;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.util.zip.CRC32;

/**
 * A Markov table in the flat form, which {@code cellpace mdi convert FILE -o FILE.flat} writes: how a controller
 * that was watched changes its window when the delay changes. docs/mdi-format.md, "The flat form", describes the words.
 *
 * <p>A table does not change, and any number of connections may share it.
 */
public final class FlatTable {
    /** The largest file that is read, in bytes: 64 MiB. */
    public static final int MAX_BYTES = 64 << 20;

    static final int ABSOLUTE = 0;
    static final int RELATIVE = 1;
    static final int LEVELS = 2;
    static final int NEAR = 0;
    static final int PAPER = 1;
    static final int CODE = 2;

    private static final int MAGIC = 0x4649444d;
    private static final int HEADER_WORDS = 20;
    private static final int LOG_WORDS = 257;
    private static final int MIN_WORDS = HEADER_WORDS + LOG_WORDS + 2 + 1 + 1;
    private static final int MAX_STATES = 1 << 24;
    private static final int MAX_EPOCH_US = 10_000_000;
    private static final int MIN_EPOCH_US = 100;

    private final int[] words;
    final int kind;
    final int delayMin;
    final int delayMax;
    final int delayStep;
    final int windowMin;
    final int windowMax;
    final int windowStep;
    final int epochMicros;
    final int empty;
    final long riseFactor;
    final long fallAdds;
    final int delays;
    final int windows;
    private final int blocks;
    private final int origins;
    private final int byWindow;
    private final int starts;
    private final int entries;
    private final int limits;

    private static final class BuiltIn {
        static final FlatTable TABLE = load();

        private static FlatTable load() {
            try (InputStream in = FlatTable.class.getResourceAsStream("verus-r2.flat")) {
                if (in == null) {
                    throw new IllegalStateException("the jar lacks its table verus-r2.flat");
                }
                int[] length = {0};
                byte[] bytes = readAll(in, length);
                return new FlatTable(bytes, length[0]);
            } catch (IOException error) {
                throw new IllegalStateException("the jar's table verus-r2.flat is damaged", error);
            }
        }

        private static byte[] readAll(InputStream in, int[] length) throws IOException {
            byte[] bytes = new byte[1 << 20];
            int have = 0;
            for (int count; (count = in.read(bytes, have, bytes.length - have)) > 0; have += count) {
                if (have + count == bytes.length) {
                    byte[] more = new byte[bytes.length * 2];
                    System.arraycopy(bytes, 0, more, 0, bytes.length);
                    bytes = more;
                }
            }
            length[0] = have;
            return bytes;
        }
    }

    /**
     * The table of Verus with R = 2, learnt on generated cellular links, for a number of users that is unknown. It takes
     * about 1 MiB of memory, once for all connections.
     *
     * @return the table that is part of this library
     */
    public static FlatTable builtIn() {
        return BuiltIn.TABLE;
    }

    /**
     * Reads a table. Of the file's own numbers none is believed before all have been checked, and no more memory is
     * taken than a small multiple of {@code length}.
     *
     * @param in where the file's bytes are; stays open
     * @param length of the file, in bytes, at most {@link #MAX_BYTES}
     * @return the table
     * @throws IOException when the bytes cannot be read, are too few, or are no table of version 1 without
     *     contradictions
     */
    public static FlatTable read(InputStream in, int length) throws IOException {
        if (length > MAX_BYTES || length < MIN_WORDS * 4) {
            throw new IOException("a table has " + MIN_WORDS * 4 + " to " + MAX_BYTES + " bytes, not " + length);
        }
        byte[] bytes = new byte[length];
        for (int have = 0; have < length; ) {
            int count = in.read(bytes, have, length - have);
            if (count < 0) {
                throw new EOFException("the table ends after " + have + " of " + length + " bytes");
            }
            have += count;
        }
        return new FlatTable(bytes, length);
    }

    private FlatTable(byte[] bytes, int length) throws IOException {
        check(length % 4 == 0 && length >= MIN_WORDS * 4, "length");
        words = new int[length / 4 - 1];
        for (int i = 0; i < words.length; i++) {
            words[i] = littleEndian(bytes, 4 * i);
        }
        check(words[0] == MAGIC, "first word: this is no flat table");
        check(words[1] == 1, "version, and this library reads 1");
        CRC32 crc = new CRC32();
        crc.update(bytes, 0, length - 4);
        check((int) crc.getValue() == littleEndian(bytes, length - 4), "checksum: the file is damaged");
        kind = ranged(2, ABSOLUTE, LEVELS, "kind of states");
        delayMin = words[3];
        delayMax = ranged(4, delayMin, Integer.MAX_VALUE, "highest delay");
        delayStep = ranged(5, 1, Integer.MAX_VALUE, "step of the delay");
        windowMin = words[6];
        windowMax = ranged(7, windowMin, Integer.MAX_VALUE, "highest window");
        windowStep = ranged(8, 1, Integer.MAX_VALUE, "step of the window");
        epochMicros = ranged(9, MIN_EPOCH_US, MAX_EPOCH_US, "length of an epoch");
        empty = ranged(10, NEAR, CODE, "rule for subsets that are empty");
        riseFactor = words[11] & 0xffffffffL;
        fallAdds = words[12] & 0xffffffffL;
        delays = ranged(14, 1, MAX_STATES, "number of delays");
        windows = ranged(15, 1, MAX_STATES, "number of windows");
        check((long) delays * windows <= MAX_STATES, "number of states");
        check(delays == axis(delayMin, delayMax, delayStep), "number of delays");
        check(windows == axis(windowMin, windowMax, windowStep), "number of windows");
        check(kind != ABSOLUTE || windowMin >= 0 && windowMax <= 0xffff && windowStep == 1 && delayMin >= 0,
                "range of windows or delays");
        int originCount = ranged(16, 0, words.length, "number of origins");
        int entryCount = ranged(17, 0, words.length, "number of entries");
        long total = HEADER_WORDS + LOG_WORDS + delays + 1L + 3L * originCount + 1 + 2L * entryCount;
        check(total == words.length, "length: the numbers of the header make another one");
        blocks = HEADER_WORDS + LOG_WORDS;
        origins = blocks + delays + 1;
        byWindow = origins + originCount;
        starts = byWindow + originCount;
        entries = starts + originCount + 1;
        limits = entries + entryCount;
        checkIndices(originCount, entryCount);
    }

    /** Everything that is an index points to where it may. */
    private void checkIndices(int originCount, int entryCount) throws IOException {
        check(words[blocks] == 0 && words[blocks + delays] == originCount, "ends of the blocks");
        for (int delay = 0; delay < delays; delay++) {
            int first = words[blocks + delay];
            int end = words[blocks + delay + 1];
            check(first >= 0 && first <= end && end <= originCount, "block of a delay");
            for (int i = first; i < end; i++) {
                int origin = words[origins + i];
                boolean ascends = i == first || origin > words[origins + i - 1];
                check(origin >= 0 && origin < delays * windows && ascends, "origin");
                check(words[byWindow + i] >= first && words[byWindow + i] < end, "order of origins");
            }
        }
        check(words[starts] == 0 && words[starts + originCount] == entryCount, "ends of the entries");
        for (int i = 0; i < originCount; i++) {
            check(words[starts + i] < words[starts + i + 1] && words[starts + i + 1] <= entryCount, "first entry");
        }
        for (int i = 0; i < entryCount; i++) {
            check(words[entries + i] >= 0 && words[entries + i] < windows, "window of an entry");
        }
    }

    private static long axis(int min, int max, int step) {
        return ((long) max - min) / step + 1;
    }

    private int ranged(int word, int min, int max, String what) throws IOException {
        check(words[word] >= min && words[word] <= max, what);
        return words[word];
    }

    private static void check(boolean holds, String what) throws IOException {
        if (!holds) {
            throw new IOException("a table with a wrong " + what);
        }
    }

    private static int littleEndian(byte[] bytes, int at) {
        return bytes[at] & 0xff | (bytes[at + 1] & 0xff) << 8 | (bytes[at + 2] & 0xff) << 16 | bytes[at + 3] << 24;
    }

    /**
     * The length of an epoch, after which the table gives the next window.
     *
     * @return microseconds
     */
    public int epochMicros() {
        return epochMicros;
    }

    int firstOrigin(int delay) {
        return words[blocks + delay];
    }

    int endOrigin(int delay) {
        return words[blocks + delay + 1];
    }

    int origin(int index) {
        return words[origins + index];
    }

    int originByWindow(int index) {
        return words[byWindow + index];
    }

    /** The first of the block's origins that is above the state, as an index. */
    int originAbove(int state, int first, int end) {
        while (first < end) {
            int middle = (first + end) >>> 1;
            if (words[origins + middle] <= state) {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
        return first;
    }

    /** The window, as an index, that 32 random bits choose among the entries of an origin. */
    int windowOf(int origin, long bits) {
        int first = words[starts + origin];
        int last = words[starts + origin + 1] - 1;
        int end = last;
        while (first < end) {
            int middle = (first + end) >>> 1;
            if ((words[limits + middle] & 0xffffffffL) <= bits) {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
        return words[entries + first];
    }

    /** log10 of a number from 1 to below 2^32, in 1/65536. */
    long log10(long x) {
        int exponent = 63 - Long.numberOfLeadingZeros(x);
        long fraction = x << (31 - exponent) & 0x7fffffffL;
        int at = HEADER_WORDS + (int) (fraction >> 23);
        long low = words[at] & 0xffffffffL;
        long high = words[at + 1] & 0xffffffffL;
        long log2 = ((long) exponent << 39) + (low << 23) + (high - low) * (fraction & 0x7fffff);
        return ((log2 >> 15) * 1_292_913_986L + (1L << 39)) >> 40;
    }
}
