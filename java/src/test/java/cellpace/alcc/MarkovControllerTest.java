package cellpace.alcc;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.util.ArrayDeque;
import org.junit.jupiter.api.Test;

class MarkovControllerTest {
    /** {@code vectors/mdi-flow.json}: the controller in Rust, driven over a link of its own. */
    @Test
    void flowsOfTheSharedVectorsAreRepeated() throws IOException {
        int flows = 0;
        for (JsonElement element : Vectors.read("mdi-flow.json").getAsJsonArray("flows")) {
            repeat(element.getAsJsonObject());
            flows++;
        }
        assertEquals(3, flows);
    }

    private static void repeat(JsonObject flow) {
        long seed = Long.parseUnsignedLong(flow.get("seed").getAsString());
        MarkovController controller = new MarkovController(FlatTable.builtIn(), seed, flow.get("mss").getAsInt());
        ArrayDeque<long[]> flying = new ArrayDeque<>();
        long inFlight = 0;
        for (JsonElement element : flow.getAsJsonArray("steps")) {
            JsonObject step = element.getAsJsonObject();
            long now = step.get("at_ns").getAsLong();
            if (step.has("sent")) {
                int bytes = step.get("sent").getAsInt();
                inFlight += bytes;
                flying.add(new long[] {now, bytes});
                controller.onSent(now, bytes, inFlight, step.get("starved").getAsBoolean());
            } else if (step.has("acked")) {
                long largest = now - flying.peek()[0];
                long newest = 0;
                for (int count = step.get("acked").getAsInt(); count > 0; count--) {
                    long[] packet = flying.remove();
                    newest = now - packet[0];
                    inFlight -= packet[1];
                }
                controller.onAck(now, largest, newest, inFlight);
            } else {
                controller.onTime(now);
            }
            assertEquals(step.get("window").getAsLong(), controller.walkWindow(), step.toString());
            assertEquals(step.get("credit").getAsLong(), controller.credit(), step.toString());
        }
    }
}
