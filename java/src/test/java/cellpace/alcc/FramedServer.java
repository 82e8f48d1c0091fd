package cellpace.alcc;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** A server that answers hellos, with the channel of this library at its end, too. */
final class FramedServer implements Closeable {
    /** What is done with a connection, on a thread of its own. */
    interface Service {
        void serve(Peer peer) throws Exception;
    }

    /** The server's end of a connection. */
    static final class Peer {
        final Socket socket;
        final Channel channel;

        Peer(Socket socket, Channel channel) {
            this.socket = socket;
            this.channel = channel;
        }

        int read(byte[] bytes) throws IOException {
            return channel.read(bytes, 0, bytes.length, 20_000);
        }

        /** To the end; the number of bytes. */
        long readAll() throws IOException {
            byte[] bytes = new byte[1 << 16];
            long all = 0;
            for (int count; (count = read(bytes)) >= 0; ) {
                all += count;
            }
            return all;
        }
    }

    final ServerSocket listener = new ServerSocket(0, 2000, InetAddress.getByName("127.0.0.1"));
    final List<Throwable> failures = new CopyOnWriteArrayList<>();
    private final List<Socket> sockets = new CopyOnWriteArrayList<>();
    private final Service service;
    private final int window;

    FramedServer(Service service) throws IOException {
        this(1 << 20, service);
    }

    FramedServer(int window, Service service) throws IOException {
        this.service = service;
        this.window = window;
        start("server", this::accept);
    }

    InetSocketAddress address() {
        return (InetSocketAddress) listener.getLocalSocketAddress();
    }

    private static void start(String name, Runnable work) {
        Thread thread = new Thread(null, work, name, 256 << 10);
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        try {
            while (true) {
                Socket socket = listener.accept();
                sockets.add(socket);
                start("server-connection", () -> serve(socket));
            }
        } catch (IOException closed) {
            // The test is over.
        }
    }

    private void serve(Socket socket) {
        try {
            Peer peer = greet(socket, window);
            service.serve(peer);
            peer.channel.close(false);
        } catch (Throwable failure) {
            failures.add(failure);
        }
    }

    static Peer greet(Socket socket, int window) throws IOException {
        socket.setTcpNoDelay(true);
        InputStream in = socket.getInputStream();
        byte[] bytes = new byte[Hello.MAX_BYTES];
        int have = 0;
        for (int needed = 10; have < needed; needed = Hello.needed(bytes, have)) {
            have += Math.max(in.read(bytes, have, needed - have), 0);
        }
        Hello hello = Hello.decode(bytes, have);
        OutputStream out = socket.getOutputStream();
        out.write(new Hello(1, true, 0, 1448, 52, window, "").toBytes());
        Outgoing outgoing = new Outgoing(new FixedWindow(64 * 1500), 1448, 52, hello.window);
        Channel channel = new Channel(socket, new Engine(outgoing, new Incoming(window)));
        channel.begin();
        return new Peer(socket, channel);
    }

    @Override
    public void close() throws IOException {
        listener.close();
        for (Socket socket : sockets) {
            socket.close();
        }
    }
}
