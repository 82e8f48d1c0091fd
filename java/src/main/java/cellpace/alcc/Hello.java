package cellpace.alcc;

import cellpace.alcc.AlccException.Reason;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.Charset;
import java.util.zip.CRC32;

/** The first bytes of each direction: docs/alcc-wire.md, "Hello". */
final class Hello {
    static final int VERSION = 1;
    static final int MIN_BYTES = 31;
    static final int MAX_BYTES = 256;
    /** Bytes that say how long the whole is. */
    static final int PREFIX_BYTES = 10;

    private static final byte[] MAGIC = {(byte) 0xf5, 'C', 'P', 0, (byte) 0xff, '\r', '\n', 0x1a};
    private static final int MAX_TEXT_BYTES = 200;
    private static final int ANSWER = 1;

    final int version;
    final boolean answer;
    /** 0: none, 1: version, 2: controller, others: not wanted. */
    final int refusal;
    /** TCP payload of a full packet, in bytes. */
    final int segment;
    /** What a packet counts for beside that, in bytes. */
    final int overhead;
    /** Offset in bytes up to which this end takes the other one's stream, without sign. */
    final long window;
    /** The controller, if it has a half at the other end. */
    final String half;

    Hello(int version, boolean answer, int refusal, int segment, int overhead, long window, String half) {
        this.version = version;
        this.answer = answer;
        this.refusal = refusal;
        this.segment = segment;
        this.overhead = overhead;
        this.window = window;
        this.half = half;
    }

    byte[] toBytes() {
        byte[] text = half.getBytes(utf8());
        byte[] bytes = new byte[MIN_BYTES + text.length];
        System.arraycopy(MAGIC, 0, bytes, 0, MAGIC.length);
        Bytes.put(bytes, 8, 2, bytes.length);
        Bytes.put(bytes, 10, 2, version);
        bytes[12] = (byte) (answer ? ANSWER : 0);
        bytes[13] = (byte) refusal;
        Bytes.put(bytes, 14, 2, segment);
        Bytes.put(bytes, 16, 2, overhead);
        Bytes.put(bytes, 18, 8, window);
        bytes[26] = (byte) text.length;
        System.arraycopy(text, 0, bytes, 27, text.length);
        Bytes.put(bytes, bytes.length - 4, 4, checksum(bytes, bytes.length - 4));
        return bytes;
    }

    /**
     * Looks at the first {@code count} bytes of a stream and returns how many the hello has as far as is known:
     * {@link #PREFIX_BYTES} until its length is there.
     */
    static int needed(byte[] bytes, int count) throws AlccException {
        for (int i = 0; i < Math.min(count, MAGIC.length); i++) {
            if (bytes[i] != MAGIC[i]) {
                throw new AlccException(Reason.PLAIN_PEER, "the other end does not speak ALCC's protocol");
            }
        }
        if (count < PREFIX_BYTES) {
            return PREFIX_BYTES;
        }
        int length = (int) Bytes.number(bytes, 8, 2);
        if (length < MIN_BYTES || length > MAX_BYTES) {
            throw new AlccException(Reason.HELLO, "a hello of " + length + " bytes");
        }
        return length;
    }

    /** Reads a whole hello of {@code length} bytes. */
    static Hello decode(byte[] bytes, int length) throws AlccException {
        if (length < MIN_BYTES || needed(bytes, length) != length) {
            throw senseless();
        }
        if (Bytes.number(bytes, length - 4, 4) != checksum(bytes, length - 4)) {
            throw new AlccException(Reason.HELLO, "the hello is damaged");
        }
        int text = bytes[26] & 0xff;
        if (text > MAX_TEXT_BYTES || 27 + text > length - 4) {
            throw senseless();
        }
        return new Hello(
                (int) Bytes.number(bytes, 10, 2),
                (bytes[12] & ANSWER) != 0,
                bytes[13] & 0xff,
                (int) Bytes.number(bytes, 14, 2),
                (int) Bytes.number(bytes, 16, 2),
                Bytes.number(bytes, 18, 8),
                text(bytes, text));
    }

    /** Checks that this answer can be done by an end without a half for the other's controller. */
    void checkAnswer() throws AlccException {
        if (!answer) {
            throw new AlccException(Reason.HELLO, "both ends connected");
        }
        if (refusal != 0) {
            throw refused(refusal == 1 ? "no common version" : refusal == 2 ? "no such receiver" : "not wanted");
        }
        if (version != VERSION) {
            throw refused("the answer asks for version " + version + ", and this end speaks " + VERSION);
        }
        if (!half.isEmpty()) {
            throw refused("the server's controller needs a half here (" + half + "): use another one there");
        }
    }

    private static AlccException refused(String why) {
        return new AlccException(Reason.REFUSED, "refused: " + why);
    }

    private static AlccException senseless() {
        return new AlccException(Reason.HELLO, "the hello makes no sense");
    }

    private static String text(byte[] bytes, int length) throws AlccException {
        try {
            // A decoder of its own reports what String would replace.
            CharBuffer text = utf8().newDecoder().decode(ByteBuffer.wrap(bytes, 27, length));
            return text.toString();
        } catch (CharacterCodingException error) {
            throw senseless();
        }
    }

    private static long checksum(byte[] bytes, int length) {
        CRC32 crc = new CRC32();
        crc.update(bytes, 0, length);
        return crc.getValue();
    }

    private static Charset utf8() {
        return Charset.forName("UTF-8");
    }
}
