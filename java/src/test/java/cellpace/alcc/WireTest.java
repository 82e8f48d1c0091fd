package cellpace.alcc;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Hellos, frames, errors and a conversation of {@code vectors/alcc.json}. */
class WireTest {
    private static JsonObject vectors;

    @BeforeAll
    static void read() throws IOException {
        vectors = Vectors.read("alcc.json");
    }

    private static List<JsonObject> list(String name) {
        List<JsonObject> all = new ArrayList<>();
        for (JsonElement element : vectors.getAsJsonArray(name)) {
            all.add(element.getAsJsonObject());
        }
        assertFalse(all.isEmpty());
        return all;
    }

    private static byte[] bytes(JsonObject vector) {
        return Vectors.hex(vector.get("bytes").getAsString());
    }

    @Test
    void hellosAreReadAndWritten() throws IOException {
        for (JsonObject vector : list("hellos")) {
            byte[] bytes = bytes(vector);
            Hello hello = Hello.decode(bytes, bytes.length);
            assertEquals(vector.get("version").getAsInt(), hello.version);
            assertEquals(vector.get("answer").getAsBoolean(), hello.answer);
            assertEquals(vector.get("segment").getAsInt(), hello.segment);
            assertEquals(vector.get("overhead").getAsInt(), hello.overhead);
            assertEquals(vector.get("window").getAsLong(), hello.window);
            assertEquals(vector.get("half").getAsString(), hello.half);
            assertEquals(vector.get("refusal").isJsonNull() ? 0 : 1, hello.refusal);
            assertArrayEquals(bytes, hello.toBytes());
        }
    }

    @Test
    void dataIsWritten() {
        Outgoing outgoing = new Outgoing(new FixedWindow(1 << 20), 1448, 52, 1 << 20);
        byte[] text = "cellpace".getBytes(StandardCharsets.US_ASCII);
        JsonObject first = list("data").get(0);
        assertEquals(8, outgoing.fill(text, 0, 8));
        int count = outgoing.poll(0, false);
        assertEquals(first.get("bytes").getAsString(), Vectors.hex(outgoing.packet(), count));
        outgoing.onGiven();
        outgoing.fill(text, 0, 8);
        outgoing.poll(0, false);
        outgoing.onGiven();
        outgoing.finish();
        count = outgoing.poll(0, false);
        assertEquals(list("data").get(2).get("bytes").getAsString(), Vectors.hex(outgoing.packet(), count));
    }

    private static Engine engine(int sent) {
        int segment = vectors.getAsJsonObject("conversation").get("segment").getAsInt();
        int window = vectors.getAsJsonObject("conversation").get("window").getAsInt();
        FixedWindow twenty = new FixedWindow(20 * (segment + 52));
        Outgoing outgoing = new Outgoing(twenty, segment, 52, 4 << 20);
        for (int i = 0; i < sent; i++) {
            outgoing.fill(new byte[8], 0, 8);
            assertTrue(outgoing.poll(0, false) > 0);
            outgoing.onGiven();
        }
        return new Engine(outgoing, new Incoming(window));
    }

    @Test
    void malformedFramesAreErrorsWhereTheSharedVectorsSayAndHoweverTheyAreCut() {
        assertTrue(list("malformed_frames").size() >= 30);
        for (JsonObject vector : list("malformed_frames")) {
            byte[] bytes = bytes(vector);
            for (int size : new int[] {1, 2, 3, 7, 13, bytes.length}) {
                Engine engine = engine(vector.get("sent").getAsInt());
                AlccException error = assertThrows(AlccException.class, () -> feed(engine, bytes, size));
                String name = vector.get("name").getAsString() + ", cut to " + size;
                assertEquals(vector.get("reason").getAsString(), error.reason().name().toLowerCase(), name);
                assertEquals(vector.get("offset").getAsLong(), engine.offset(), name);
            }
        }
    }

    private static void feed(Engine engine, byte[] bytes, int size) throws IOException {
        for (int at = 0; at < bytes.length; at += size) {
            engine.takeInput(0, bytes, at, Math.min(size, bytes.length - at));
        }
    }

    @Test
    void malformedAnswersAreErrorsWhereTheSharedVectorsSay() {
        for (JsonObject vector : list("malformed_answers")) {
            byte[] bytes = bytes(vector);
            int[] taken = {0};
            AlccException error = assertThrows(AlccException.class, () -> answer(bytes, taken));
            String name = vector.get("name").getAsString();
            assertEquals(vector.get("reason").getAsString(), error.reason().name().toLowerCase(), name);
            assertEquals(vector.get("offset").getAsInt(), taken[0], name);
        }
    }

    private static void answer(byte[] bytes, int[] taken) throws IOException {
        while (taken[0] < Hello.needed(bytes, taken[0])) {
            taken[0]++;
        }
        Hello.decode(bytes, taken[0]).checkAnswer();
    }

    /** Each turn leaves the bytes that the implementation in Rust left. */
    @Test
    void theConversationIsRepeated() throws IOException {
        Engine engine = null;
        byte[] waiting = new byte[0];
        int number = 0;
        for (JsonElement element : vectors.getAsJsonObject("conversation").getAsJsonArray("turns")) {
            JsonObject turn = element.getAsJsonObject();
            byte[] came = Vectors.hex(turn.get("came").getAsString());
            String left = turn.get("left").getAsString();
            long now = turn.get("at_us").getAsLong() * 1000;
            int at = 0;
            if (number == 0) {
                assertEquals(new Hello(1, false, 0, 112, 52, 4096, "").toBytes().length * 2, left.length());
                assertEquals(Vectors.hex(new Hello(1, false, 0, 112, 52, 4096, "").toBytes(), 31), left);
                number++;
                continue;
            }
            if (engine == null && came.length > 0) {
                at = Hello.needed(came, came.length);
                Hello answer = Hello.decode(came, at);
                answer.checkAnswer();
                engine = new Engine(new Outgoing(new FixedWindow(20 * 164), 112, 52, answer.window), new Incoming(4096));
            }
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            engine.takeInput(now, came, at, came.length - at);
            int read = turn.get("read").getAsInt();
            if (read > 0) {
                assertEquals(read, engine.incoming.read(new byte[read], 0, read));
            }
            waiting = join(waiting, turn.get("write").getAsString().getBytes(StandardCharsets.US_ASCII));
            waiting = leave(engine, now, waiting, turn.get("finish").getAsBoolean(), out);
            assertEquals(left, Vectors.hex(out.toByteArray(), out.size()), "turn " + number++);
        }
        assertTrue(engine.outgoing.isAcked() && engine.isDrained());
        engine.takeEnd();
    }

    private static byte[] leave(Engine engine, long now, byte[] waiting, boolean finish, ByteArrayOutputStream out) {
        byte[] ack = new byte[FrameDecoder.ACK_BYTES];
        for (;;) {
            int taken = engine.outgoing.fill(waiting, 0, waiting.length);
            waiting = java.util.Arrays.copyOfRange(waiting, taken, waiting.length);
            if (finish && waiting.length == 0) {
                engine.outgoing.finish();
            }
            int count = engine.incoming.pollAck(now, ack);
            if (count > 0) {
                out.write(ack, 0, count);
                continue;
            }
            count = engine.outgoing.poll(now, waiting.length > 0);
            if (count == 0) {
                return waiting;
            }
            out.write(engine.outgoing.packet(), 0, count);
            engine.outgoing.onGiven();
        }
    }

    private static byte[] join(byte[] first, byte[] second) {
        byte[] all = java.util.Arrays.copyOf(first, first.length + second.length);
        System.arraycopy(second, 0, all, first.length, second.length);
        return all;
    }

    @Test
    void aStreamThatIsCutAnywhereIsReadTheSame() throws IOException {
        byte[] stream = stream(new int[] {1, 2, 11, 12, 13, 100, 1436, 0});
        byte[] expected = null;
        for (int cut = 0; cut <= stream.length; cut++) {
            Engine engine = new Engine(new Outgoing(new FixedWindow(1), 1448, 52, 0), new Incoming(1 << 20));
            engine.takeInput(0, stream, 0, cut);
            AlccException early = cut < stream.length ? assertThrows(AlccException.class, engine::takeEnd) : null;
            assertTrue(early == null || early.reason() == AlccException.Reason.TRUNCATED);
            engine.takeInput(1, stream, cut, stream.length - cut);
            byte[] data = new byte[4000];
            int count = engine.incoming.read(data, 0, data.length);
            data = java.util.Arrays.copyOf(data, count);
            expected = expected == null ? data : expected;
            assertArrayEquals(expected, data, "cut at " + cut);
            assertEquals(8, engine.incoming.receivedPackets());
            assertTrue(engine.incoming.isEnded());
        }
        assertEquals(1575, expected.length);
    }

    private static byte[] stream(int[] lengths) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        Outgoing outgoing = new Outgoing(new FixedWindow(1 << 30), 1448, 52, 1 << 20);
        byte[] data = new byte[2000];
        new Random(3).nextBytes(data);
        for (int length : lengths) {
            outgoing.fill(data, 0, length);
            if (length == 0) {
                outgoing.finish();
            }
            out.write(outgoing.packet(), 0, outgoing.poll(0, false));
            outgoing.onGiven();
        }
        return out.toByteArray();
    }

    /** Streams that are half valid, changed and cut at random: an error or none, and never anything else. */
    @Test
    void randomStreamsNeverDoMoreThanFail() {
        byte[] valid = stream(new int[] {5, 1436, 40, 700, 1, 0});
        int errors = 0;
        for (int seed = 0; seed < 20_000; seed++) {
            Random random = new Random(seed);
            byte[] bytes = valid.clone();
            for (int changes = random.nextInt(4); changes > 0; changes--) {
                // Near the heads, where it matters.
                int at = random.nextInt(random.nextBoolean() ? bytes.length : 40);
                bytes[at] = random.nextInt(3) == 0 ? (byte) 0x81 : (byte) random.nextInt();
            }
            Engine engine = engine(random.nextInt(5));
            try {
                for (int at = 0; at < bytes.length; ) {
                    int count = Math.min(1 + random.nextInt(200), bytes.length - at);
                    engine.takeInput(at, bytes, at, count);
                    at += count;
                    engine.incoming.read(new byte[64], 0, random.nextInt(64));
                }
            } catch (AlccException expected) {
                errors++;
            }
            assertTrue(engine.offset() <= bytes.length);
        }
        assertTrue(errors > 5_000, errors + " errors");
    }
}
