package cellpace.alcc;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Base64;

/** The files that implementations in several languages share; {@code ./dev vectors} writes them. */
final class Vectors {
    private Vectors() {}

    static JsonObject read(String name) throws IOException {
        Path file = Paths.get("..", "vectors", name);
        return JsonParser.parseString(Files.readString(file)).getAsJsonObject();
    }

    static byte[] hex(String text) {
        byte[] bytes = new byte[text.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    static String hex(byte[] bytes, int count) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < count; i++) {
            text.append(String.format("%02x", bytes[i]));
        }
        return text.toString();
    }

    static FlatTable table(String base64) throws IOException {
        byte[] bytes = Base64.getDecoder().decode(base64);
        return FlatTable.read(new java.io.ByteArrayInputStream(bytes), bytes.length);
    }
}
