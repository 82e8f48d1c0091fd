package cellpace.alcc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.Base64;
import java.util.Random;
import java.util.zip.CRC32;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TableWalkTest {
    @ParameterizedTest
    @ValueSource(strings = {"absolute", "relative", "levels"})
    void walksOfTheSharedVectorsAreRepeated(String kind) throws IOException {
        int steps = 0;
        for (JsonElement walk : Vectors.read("mdi-" + kind + ".json").getAsJsonArray("walks")) {
            steps += repeat(walk.getAsJsonObject());
        }
        assertEquals(900, steps);
    }

    private static int repeat(JsonObject vector) throws IOException {
        long seed = Long.parseUnsignedLong(vector.get("seed").getAsString());
        TableWalk walk = new TableWalk(Vectors.table(vector.get("flat").getAsString()), seed);
        long credit = 0;
        int number = 0;
        for (JsonElement element : vector.getAsJsonArray("steps")) {
            JsonObject step = element.getAsJsonObject();
            if (step.has("set")) {
                walk.setWindow(step.get("set").getAsLong(), step.get("forget").getAsBoolean());
            } else {
                walk.step(step.get("delay_us").getAsLong(), step.get("acked").getAsBoolean());
                long left = credit - step.get("sent").getAsLong();
                credit = walk.release(left, step.get("in_flight").getAsLong(), step.get("epochs").getAsLong());
            }
            String at = vector.get("rules") + ", step " + number++ + ": " + step;
            assertEquals(step.get("window").getAsLong(), walk.window(), at);
            assertEquals(step.get("credit").getAsLong(), credit, at);
        }
        return number;
    }

    @Test
    void theBuiltInTableIsThere() {
        assertEquals(5000, FlatTable.builtIn().epochMicros());
        assertEquals(FlatTable.LEVELS, FlatTable.builtIn().kind);
    }

    /** Where the window ends after ten seconds without an ack: nothing overflows, nothing is below one packet. */
    @Test
    void aWalkOutlivesAnHourOfSilence() {
        TableWalk walk = new TableWalk(FlatTable.builtIn(), 0);
        walk.step(40_000, true);
        for (long epoch = 1; epoch < 720_000; epoch++) {
            walk.step(Math.min(40_000 + 5_000 * epoch, 0xffffffffL), false);
            if (walk.window() < TableWalk.ONE_PACKET) {
                throw new AssertionError("epoch " + epoch + ": " + walk.window());
            }
        }
    }

    @Test
    void damagedTablesAreRefused() throws IOException {
        byte[] good = flat();
        assertThrows(IOException.class, () -> read(good, good.length - 4));
        assertThrows(IOException.class, () -> read(good, good.length + 4));
        assertThrows(IOException.class, () -> read(good, -1));
        assertThrows(IOException.class, () -> read(good, Integer.MAX_VALUE));
        for (int i = 0; i < good.length; i += 7) {
            byte[] bad = good.clone();
            bad[i] ^= 0x40;
            assertThrows(IOException.class, () -> read(bad, bad.length), "byte " + i);
        }
    }

    /** Wrong words under a right checksum: refused, or a walk that stays within the table. */
    @Test
    void tablesThatContradictThemselvesDoNoHarm() throws IOException {
        byte[] good = flat();
        Random random = new Random(7);
        int refused = 0;
        for (int round = 0; round < 20_000; round++) {
            byte[] bad = good.clone();
            int word = round % 2 == 0 ? 2 + random.nextInt(16) : 2 + random.nextInt(bad.length / 4 - 3);
            int value = random.nextBoolean() ? random.nextInt() : random.nextInt(2000) - 1000;
            put(bad, 4 * word, value);
            CRC32 crc = new CRC32();
            crc.update(bad, 0, bad.length - 4);
            put(bad, bad.length - 4, (int) crc.getValue());
            try {
                walk(read(bad, bad.length), random);
            } catch (IOException expected) {
                refused++;
            }
        }
        assertEquals(true, refused > 5_000, refused + " were refused");
    }

    private static void walk(FlatTable table, Random random) {
        TableWalk walk = new TableWalk(table, random.nextLong());
        for (int step = 0; step < 50; step++) {
            walk.step(random.nextInt(200_000), random.nextInt(4) > 0);
            walk.release(3, 7, 9);
        }
    }

    private static byte[] flat() throws IOException {
        JsonObject walk = Vectors.read("mdi-levels.json").getAsJsonArray("walks").get(0).getAsJsonObject();
        return Base64.getDecoder().decode(walk.get("flat").getAsString());
    }

    private static FlatTable read(byte[] bytes, int length) throws IOException {
        return FlatTable.read(new ByteArrayInputStream(bytes), length);
    }

    private static void put(byte[] bytes, int at, int value) {
        for (int i = 0; i < 4; i++) {
            bytes[at + i] = (byte) (value >> 8 * i);
        }
    }
}
