package cellpace.alcc;

/** A queue of bytes that grows up to a limit and then stays as large as it was. */
final class Ring {
    private static final int FIRST_BYTES = 4096;

    private final int limit;
    private byte[] bytes = new byte[0];
    private int start;
    private int length;

    Ring(int limit) {
        this.limit = limit;
    }

    int limit() {
        return limit;
    }

    int length() {
        return length;
    }

    /** Appends all of the bytes, or nothing if they do not fit. */
    boolean push(byte[] from, int at, int count) {
        if (count > limit - length) {
            return false;
        }
        if (count > bytes.length - length) {
            grow(length + count);
        }
        int end = (int) (((long) start + length) % Math.max(bytes.length, 1));
        int first = Math.min(count, bytes.length - end);
        System.arraycopy(from, at, bytes, end, first);
        System.arraycopy(from, at + first, bytes, 0, count - first);
        length += count;
        return true;
    }

    private void grow(int needed) {
        int size = Math.max(bytes.length, Math.min(FIRST_BYTES, limit));
        while (size < needed) {
            size = (int) Math.min(2L * size, limit);
        }
        byte[] larger = new byte[size];
        int count = length;
        take(larger, 0, count);
        bytes = larger;
        start = 0;
        length = count;
    }

    /** Takes at most as many bytes, and says how many. */
    int take(byte[] to, int at, int count) {
        count = Math.min(count, length);
        int first = Math.min(count, bytes.length - start);
        System.arraycopy(bytes, start, to, at, first);
        System.arraycopy(bytes, 0, to, at + first, count - first);
        drop(count);
        return count;
    }

    /** Takes at most as many bytes away, and says how many. */
    int drop(int count) {
        count = Math.min(count, length);
        length -= count;
        start = length == 0 ? 0 : (int) (((long) start + count) % bytes.length);
        return count;
    }
}
