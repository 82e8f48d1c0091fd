package cellpace.alcc;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Proxy;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * An HTTP proxy on loopback inside the app, for HTTPS: the HTTP stack asks it for a tunnel to a server (CONNECT), and
 * what the tunnel carries goes through an {@link AlccSocket}. TLS stays end to end between the stack and the server, and any
 * stack that knows proxies works unchanged.
 *
 * <p>It leads to one server only, whose name the stack asks for, at its HTTPS port 443 or the given one; everything else is
 * refused. So other apps of the phone, which reach loopback as well, get nowhere that they could not go by themselves.
 *
 * <p>A stack that writes to loopback sees its bytes vanish into the buffers between it and here: the progress of an upload
 * is what {@link #statistics()} says, not what was written.
 */
public final class AlccProxy implements Closeable {
    /** Tunnels at once at most; more wait. */
    public static final int MAX_TUNNELS = 64;

    private static final int HTTPS = 443;
    private static final int MAX_HEAD_BYTES = 16 << 10;
    private static final int HEAD_WITHIN_MILLIS = 10_000;
    private static final int BUFFER_BYTES = 16 << 10;

    private final AlccOptions options;
    private final InetSocketAddress server;
    private final PlainServers plain = new PlainServers();
    private final ServerSocket listener;
    private final Set<Tunnel> tunnels = new HashSet<Tunnel>();
    private boolean closed;

    /**
     * Begins to serve.
     *
     * @param options how connections to the server behave
     * @param server the name of the server as the HTTP stack knows it, and the port at which {@code cellpace proxy} listens
     *     there; the name is resolved anew for each tunnel
     * @return the proxy, which serves until it is closed
     * @throws IOException when no port of the loopback interface can be had
     */
    public static AlccProxy start(AlccOptions options, InetSocketAddress server) throws IOException {
        AlccProxy proxy = new AlccProxy(options, server);
        Thread acceptor = new Thread(new Runnable() {
            @Override
            public void run() {
                proxy.acceptAll();
            }
        }, "alcc-proxy");
        acceptor.setDaemon(true);
        acceptor.start();
        return proxy;
    }

    private AlccProxy(AlccOptions options, InetSocketAddress server) throws IOException {
        this.options = options;
        this.server = server;
        listener = new ServerSocket();
        // What waits here is progress that lies.
        listener.setReceiveBufferSize(BUFFER_BYTES);
        listener.bind(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), 0));
    }

    /**
     * What HTTP stacks take, as in {@code new OkHttpClient.Builder().proxy(...)}.
     *
     * @return the proxy's address
     */
    public Proxy asProxy() {
        return new Proxy(Proxy.Type.HTTP, listener.getLocalSocketAddress());
    }

    /**
     * The port of 127.0.0.1 at which the proxy listens, as for WebView's {@code ProxyController}.
     *
     * @return a TCP port
     */
    public int port() {
        return listener.getLocalPort();
    }

    /**
     * The figures of the open tunnels, from when they have reached the server.
     *
     * @return figures, which do not change
     */
    public List<AlccStatistics> statistics() {
        List<AlccStatistics> all = new ArrayList<AlccStatistics>();
        synchronized (tunnels) {
            for (Tunnel tunnel : tunnels) {
                if (tunnel.far.isConnected()) {
                    all.add(tunnel.far.statistics());
                }
            }
        }
        return all;
    }

    /** Ends the proxy and its tunnels. */
    @Override
    public void close() throws IOException {
        List<Tunnel> open;
        synchronized (tunnels) {
            closed = true;
            open = new ArrayList<Tunnel>(tunnels);
            tunnels.notifyAll();
        }
        listener.close();
        for (Tunnel tunnel : open) {
            tunnel.end();
        }
    }

    private void acceptAll() {
        while (awaitRoom()) {
            try {
                open(listener.accept());
            } catch (IOException error) {
                // Closed, or this one connection is none: there may be others.
                if (listener.isClosed()) {
                    return;
                }
            }
        }
    }

    private boolean awaitRoom() {
        synchronized (tunnels) {
            while (tunnels.size() >= MAX_TUNNELS && !closed) {
                try {
                    tunnels.wait();
                } catch (InterruptedException interrupted) {
                    return false;
                }
            }
            return !closed;
        }
    }

    private void open(Socket near) throws IOException {
        Tunnel tunnel = new Tunnel(near);
        synchronized (tunnels) {
            if (closed) {
                near.close();
                return;
            }
            tunnels.add(tunnel);
        }
        tunnel.start();
    }

    /** One connection of the HTTP stack. */
    private final class Tunnel extends Thread {
        private final Socket near;
        private final AlccSocket far = new AlccSocket(options, null, plain);

        Tunnel(Socket near) {
            super("alcc-tunnel-up");
            setDaemon(true);
            this.near = near;
        }

        @Override
        public void run() {
            try {
                if (accepts(head())) {
                    carry();
                }
            } catch (IOException error) {
                abort();
            } finally {
                end();
                synchronized (tunnels) {
                    tunnels.remove(this);
                    tunnels.notifyAll();
                }
            }
        }

        /** The request's head, without a byte of what follows: its first line, "" if there is none. */
        private String head() throws IOException {
            near.setSoTimeout(HEAD_WITHIN_MILLIS);
            InputStream in = near.getInputStream();
            StringBuilder head = new StringBuilder();
            while (head.length() < MAX_HEAD_BYTES) {
                int next = in.read();
                if (next < 0) {
                    return "";
                }
                head.append((char) next);
                if (next == '\n' && ends(head)) {
                    near.setSoTimeout(0);
                    return head.substring(0, head.indexOf("\n")).trim();
                }
            }
            answer("431 Request Header Fields Too Large", "The head of a request has at most 16 KiB.");
            return "";
        }

        private boolean ends(StringBuilder head) {
            int end = head.length();
            return end >= 4 && head.charAt(end - 2) == '\r' && head.charAt(end - 3) == '\n'
                    || end >= 2 && head.charAt(end - 2) == '\n';
        }

        private boolean accepts(String line) throws IOException {
            if (line.isEmpty()) {
                return false;
            }
            String[] words = line.split(" ");
            if (words.length != 3 || !words[0].equals("CONNECT")) {
                answer("405 Method Not Allowed", "This proxy only makes tunnels for HTTPS; for http:// there is"
                        + " AlccSocketFactory.");
                return false;
            }
            if (!isServer(words[1])) {
                answer("403 Forbidden", "This proxy only leads to " + server.getHostString() + ".");
                return false;
            }
            try {
                far.connect(new InetSocketAddress(server.getHostString(), server.getPort()));
            } catch (IOException error) {
                answer("502 Bad Gateway", "No connection to the server: " + error.getMessage());
                return false;
            }
            near.getOutputStream().write(ascii("HTTP/1.1 200 Connection established\r\n\r\n"));
            return true;
        }

        private boolean isServer(String asked) {
            String name = server.getHostString();
            String host = name.indexOf(':') < 0 ? name : "[" + name + "]";
            return asked.equalsIgnoreCase(host + ":" + HTTPS) || asked.equalsIgnoreCase(host + ":" + server.getPort());
        }

        private void answer(String status, String why) throws IOException {
            String head = "HTTP/1.1 " + status + "\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: ";
            near.getOutputStream().write(ascii(head + (why.length() + 1) + "\r\n\r\n" + why + "\n"));
        }

        private byte[] ascii(String text) throws IOException {
            return text.getBytes("US-ASCII");
        }

        private void carry() throws IOException {
            Thread down = new Thread("alcc-tunnel-down") {
                @Override
                public void run() {
                    try {
                        pass(far, near);
                    } catch (IOException error) {
                        abort();
                    }
                }
            };
            down.setDaemon(true);
            down.start();
            try {
                pass(near, far);
                awaitEnd(down);
            } finally {
                end();
            }
        }

        private void awaitEnd(Thread down) {
            try {
                down.join();
            } catch (InterruptedException interrupted) {
                // Then it ends now.
            }
        }

        /** Carries one direction to its end, and the end, too. */
        private void pass(Socket from, Socket to) throws IOException {
            byte[] bytes = new byte[BUFFER_BYTES];
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            for (int count; (count = in.read(bytes)) >= 0; ) {
                out.write(bytes, 0, count);
                if (in.available() == 0) {
                    out.flush();
                }
            }
            to.shutdownOutput();
        }

        /** A connection that broke must not look like one that ended. */
        private void abort() {
            try {
                near.setSoLinger(true, 0);
                far.setSoLinger(true, 0);
            } catch (IOException closed) {
                // It has ended already.
            }
            end();
        }

        private void end() {
            close(near);
            close(far);
        }

        private void close(Socket socket) {
            try {
                socket.close();
            } catch (IOException ignored) {
                // It is as closed as it can be.
            }
        }
    }
}
