package cellpace.alcc;

import cellpace.alcc.AlccException.Reason;

/**
 * Cuts a stream into frames, wherever it was cut on its way: docs/alcc-wire.md, "Frames". Keeps at most one frame
 * without its data, and allocates nothing after its construction but errors.
 */
final class FrameDecoder {
    /** What is done with the pieces. */
    interface Pieces {
        /** A packet begins; 0 bytes: the end of the stream. */
        void onData(long number, int length) throws AlccException;

        /** Data of the packet that began last, of which {@code left} bytes are still to come. */
        void onBytes(byte[] bytes, int at, int count, int left) throws AlccException;

        /** An ack; its numbers have no sign. */
        void onAck(long number, long clockMicros, long heldMicros, long window) throws AlccException;
    }

    /** Word and number, in bytes. */
    static final int HEADER_BYTES = 12;
    /** A whole ack, in bytes. */
    static final int ACK_BYTES = 32;
    static final int ACK_WORD = 0x81000014;

    private static final int MAX_DATA = 1 << 20;
    private static final int MAX_REPORT = 1200;
    private static final int REPORT_KIND = 0x82000000;
    private static final int LENGTH_MASK = 0xffffff;

    private final Pieces pieces;
    private final byte[] partial = new byte[HEADER_BYTES + MAX_REPORT];
    private int have;
    /** Data of the current packet that has not come. */
    private int left;
    private long number;
    private long report;
    private boolean ended;
    private long offset;

    FrameDecoder(Pieces pieces) {
        this.pieces = pieces;
    }

    /** Whether the next byte begins a frame. */
    boolean isBetweenFrames() {
        return left == 0 && have == 0;
    }

    /** Bytes of the stream that were taken, for whoever wants to know where an error is. */
    long offset() {
        return offset;
    }

    /** Takes all of the bytes. After an error nothing sensible follows. */
    void take(byte[] bytes, int at, int count) throws AlccException {
        int end = at + count;
        while (at < end) {
            at += left > 0 ? takeData(bytes, at, end) : takeHeader(bytes, at, end);
        }
    }

    private int takeData(byte[] bytes, int at, int end) throws AlccException {
        int count = Math.min(left, end - at);
        left -= count;
        offset += count;
        pieces.onBytes(bytes, at, count, left);
        return count;
    }

    private int takeHeader(byte[] bytes, int at, int end) throws AlccException {
        int count = Math.min(needed() - have, end - at);
        System.arraycopy(bytes, at, partial, have, count);
        have += count;
        offset += count;
        // The word may say that more is needed, or that it cannot be.
        if (have >= 4 && have == needed()) {
            have = 0;
            takeFrame((int) Bytes.number(partial, 0, 4), Bytes.number(partial, 4, 8));
        }
        return count;
    }

    /** Bytes of the frame without its data, as far as is known by now. */
    private int needed() throws AlccException {
        if (have < 4) {
            return 4;
        }
        int word = (int) Bytes.number(partial, 0, 4);
        int length = word & LENGTH_MASK;
        if (word == ACK_WORD) {
            return ACK_BYTES;
        }
        if ((word & ~LENGTH_MASK) == REPORT_KIND && length <= MAX_REPORT) {
            return HEADER_BYTES + length;
        }
        if (word < 0) {
            throw wrong("an unknown frame (0x" + Integer.toHexString(word) + ")");
        }
        if (word > MAX_DATA) {
            throw wrong("a frame of " + word + " bytes");
        }
        if (ended) {
            throw wrong("data behind the end");
        }
        return HEADER_BYTES;
    }

    private void takeFrame(int word, long found) throws AlccException {
        if (word == ACK_WORD) {
            pieces.onAck(found, Bytes.number(partial, 12, 8), Bytes.number(partial, 20, 4),
                    Bytes.number(partial, 24, 8));
        } else if (word < 0) {
            // Reports belong to controllers with a half at the other end, which there is none of here.
            report = next(report, found);
        } else {
            number = next(number, found);
            left = word;
            ended = word == 0;
            pieces.onData(number, word);
        }
    }

    private static long next(long last, long found) throws AlccException {
        if (found != last + 1) {
            throw wrong("a frame with another number than " + (last + 1));
        }
        return found;
    }

    private static AlccException wrong(String what) {
        return new AlccException(Reason.FRAME, what);
    }
}
