package cellpace.alcc;

import java.io.Closeable;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;

/** Sends back what comes, over ordinary TCP. */
final class EchoServer implements Closeable {
    private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));

    EchoServer() throws IOException {
        start(() -> {
            try {
                while (true) {
                    Socket socket = listener.accept();
                    start(() -> serve(socket));
                }
            } catch (IOException closed) {
                // The test is over.
            }
        });
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work, "echo");
        thread.setDaemon(true);
        thread.start();
    }

    private static void serve(Socket socket) {
        try (socket) {
            OutputStream out = socket.getOutputStream();
            byte[] bytes = new byte[1 << 14];
            for (int count; (count = socket.getInputStream().read(bytes)) >= 0; ) {
                out.write(bytes, 0, count);
            }
        } catch (IOException gone) {
            // The client is done.
        }
    }

    int port() {
        return listener.getLocalPort();
    }

    @Override
    public void close() throws IOException {
        listener.close();
    }
}
