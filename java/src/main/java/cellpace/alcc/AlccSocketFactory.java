package cellpace.alcc;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.Arrays;
import javax.net.SocketFactory;

/**
 * Makes {@link AlccSocket}s for HTTP stacks, as in {@code new OkHttpClient.Builder().socketFactory(...)}.
 *
 * <p>A hello is only sent to the ports that are named here; sockets that connect to others are ordinary ones. For HTTPS,
 * {@link AlccProxy} works with every stack, this only with those that use the streams of the socket below.
 *
 * <p>A server that gave no answer is remembered for an hour, in which it is connected to without a hello.
 */
public final class AlccSocketFactory extends SocketFactory {
    private final AlccOptions options;
    private final int[] ports;
    private final PlainServers plain = new PlainServers();

    /**
     * A factory.
     *
     * @param options how connections behave
     * @param ports TCP ports whose servers carry acks inside the stream, at least one
     */
    public AlccSocketFactory(AlccOptions options, int... ports) {
        if (ports.length == 0) {
            throw new IllegalArgumentException("no port whose servers carry acks inside the stream");
        }
        this.options = options;
        this.ports = ports.clone();
        Arrays.sort(this.ports);
    }

    /**
     * A socket that is not connected.
     *
     * @return an {@link AlccSocket}
     */
    @Override
    public Socket createSocket() {
        return new AlccSocket(options, ports, plain);
    }

    @Override
    public Socket createSocket(String host, int port) throws IOException {
        return connected(new InetSocketAddress(host, port), null);
    }

    @Override
    public Socket createSocket(String host, int port, InetAddress local, int localPort) throws IOException {
        return connected(new InetSocketAddress(host, port), new InetSocketAddress(local, localPort));
    }

    @Override
    public Socket createSocket(InetAddress host, int port) throws IOException {
        return connected(new InetSocketAddress(host, port), null);
    }

    @Override
    public Socket createSocket(InetAddress host, int port, InetAddress local, int localPort) throws IOException {
        return connected(new InetSocketAddress(host, port), new InetSocketAddress(local, localPort));
    }

    private Socket connected(InetSocketAddress address, InetSocketAddress local) throws IOException {
        Socket socket = createSocket();
        try {
            if (local != null) {
                socket.bind(local);
            }
            socket.connect(address);
            return socket;
        } catch (IOException error) {
            socket.close();
            throw error;
        }
    }
}
