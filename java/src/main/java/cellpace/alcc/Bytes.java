package cellpace.alcc;

/** Big-endian numbers in arrays. */
final class Bytes {
    private Bytes() {}

    static long number(byte[] bytes, int at, int length) {
        long value = 0;
        for (int i = at; i < at + length; i++) {
            value = value << 8 | (bytes[i] & 0xff);
        }
        return value;
    }

    static void put(byte[] bytes, int at, int length, long value) {
        for (int i = at + length - 1; i >= at; i--) {
            bytes[i] = (byte) value;
            value >>>= 8;
        }
    }

    /** Whether {@code a < b} as numbers without sign. */
    static boolean isBelow(long a, long b) {
        return a + Long.MIN_VALUE < b + Long.MIN_VALUE;
    }
}
