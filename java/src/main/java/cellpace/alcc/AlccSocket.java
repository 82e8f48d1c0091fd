package cellpace.alcc;

import cellpace.alcc.AlccException.Reason;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.nio.channels.SocketChannel;
import java.util.Arrays;

/**
 * A client's socket whose packets are numbered and acknowledged inside the stream, and leave as a learnt table says: so
 * an upload keeps the queue of the mobile network short. It is used as any other {@link Socket}, on top of an ordinary
 * one; the server's end is {@code cellpace proxy --driver client-server}.
 *
 * <ul>
 *   <li>{@code write} returns when TCP has the bytes, and TCP has no more than the controller's window of them; only a last
 *       packet that is not full may wait for the next ack, as by Nagle's algorithm, until {@code flush} or {@link
 *       #setTcpNoDelay}. {@link #statistics()} says what has arrived.
 *   <li>{@code close} returns at once. What was written is still delivered, for which a thread stays until the server has
 *       ended the connection, too, for 60 s at most; {@link #setSoLinger}{@code (true, 0)} before it gives up at once.
 *   <li>{@link Thread#interrupt} in {@code write} gives {@link java.io.InterruptedIOException} and ends the connection; in
 *       {@code read} the connection stays.
 *   <li>As with every socket, Android refuses {@code connect}, {@code read} and {@code write} on the main thread
 *       ({@code NetworkOnMainThreadException}).
 *   <li>{@link #getChannel()} is null, and there is no urgent data.
 *   <li>TLS stacks have to use the streams of this socket. One that takes its file descriptor (the oldest of Conscrypt's)
 *       finds none and fails: use {@link AlccProxy} for it.
 * </ul>
 *
 * <p>A connection has one thread of its own and about 25 kB of memory, beside what waits to be read.
 */
public final class AlccSocket extends Socket {
    private final AlccOptions options;
    /** Ports that are sent a hello, ascending; null: all. */
    private final int[] ports;
    private final PlainServers plainServers;

    private volatile Socket below;
    /** Null before the connection is there, and in one that is plain. */
    private volatile Channel channel;
    private volatile boolean closed;
    private volatile int timeout;
    private volatile boolean inputShutdown;
    private volatile boolean outputShutdown;
    private volatile boolean noDelay;
    private volatile boolean abort;
    private boolean connecting;
    private ListenerThread listener;

    /**
     * A socket that is not connected. {@code connect} sends a hello to whatever it is given.
     *
     * @param options how the connection behaves
     */
    public AlccSocket(AlccOptions options) {
        this(options, null, new PlainServers());
    }

    AlccSocket(AlccOptions options, int[] ports, PlainServers plainServers) {
        // Its own socket is never made.
        super();
        this.options = options;
        this.ports = ports;
        this.plainServers = plainServers;
    }

    // Connecting.

    @Override
    public void connect(SocketAddress address) throws IOException {
        connect(address, 0);
    }

    /**
     * Connects, says hello, and waits for the answer.
     *
     * @param address of the server
     * @param milliseconds for all of that; 0: no limit but the system's and {@link AlccOptions#answerWithin}
     * @throws AlccException when both ends cannot agree
     * @throws IOException when there is no connection
     */
    @Override
    public void connect(SocketAddress address, int milliseconds) throws IOException {
        Socket socket;
        synchronized (this) {
            checkOpen();
            if (connecting) {
                throw new SocketException("already connected");
            }
            connecting = true;
            socket = below();
        }
        long until = milliseconds == 0 ? Long.MAX_VALUE : System.nanoTime() + milliseconds * 1_000_000L;
        boolean done = false;
        try {
            socket.connect(address, milliseconds);
            agree(socket, address, until);
            done = true;
        } finally {
            if (!done) {
                close();
            }
        }
    }

    private void agree(Socket socket, SocketAddress address, long until) throws IOException {
        boolean framed = isWanted(address) && !(options.plainFallback() && plainServers.contains(address));
        if (!framed) {
            socket.setSoTimeout(timeout);
            socket.setTcpNoDelay(noDelay);
            return;
        }
        int within = (int) Math.min(options.answerWithin(), left(until));
        try {
            Channel agreed = Handshake.agree(socket, options, within);
            begin(agreed);
        } catch (AlccException error) {
            boolean plain = error.reason() == Reason.PLAIN_PEER || error.reason() == Reason.NO_ANSWER;
            if (!plain || !options.plainFallback()) {
                throw error;
            }
            plainServers.add(address);
            connectPlain(socket, address, until);
        }
    }

    private boolean isWanted(SocketAddress address) {
        int port = address instanceof InetSocketAddress ? ((InetSocketAddress) address).getPort() : -1;
        return ports == null || Arrays.binarySearch(ports, port) >= 0;
    }

    private static long left(long until) throws SocketTimeoutException {
        if (until == Long.MAX_VALUE) {
            return Integer.MAX_VALUE;
        }
        long left = (until - System.nanoTime()) / 1_000_000;
        if (left <= 0) {
            throw new SocketTimeoutException("connect timed out");
        }
        return left;
    }

    private void begin(Channel agreed) throws IOException {
        synchronized (this) {
            checkOpen();
            agreed.setNoDelay(noDelay);
            agreed.begin();
            channel = agreed;
            if (listener != null) {
                listener.start();
            }
        }
    }

    /** The other end has got a hello that it cannot have understood: once more, without. */
    private void connectPlain(Socket first, SocketAddress address, long until) throws IOException {
        InetAddress local = first.getLocalAddress();
        first.close();
        Socket socket = options.sockets().createSocket();
        synchronized (this) {
            checkOpen();
            below = socket;
        }
        if (local != null) {
            socket.bind(new InetSocketAddress(local, 0));
        }
        long left = left(until);
        socket.connect(address, left == Integer.MAX_VALUE ? 0 : (int) left);
        socket.setSoTimeout(timeout);
        socket.setTcpNoDelay(noDelay);
    }

    /** The socket below, made when it is needed first: a constructor must not fail. */
    private synchronized Socket below() throws SocketException {
        checkOpen();
        if (below == null) {
            try {
                below = options.sockets().createSocket();
            } catch (SocketException error) {
                throw error;
            } catch (IOException error) {
                SocketException failed = new SocketException("no socket: " + error.getMessage());
                failed.initCause(error);
                throw failed;
            }
        }
        return below;
    }

    private void checkOpen() throws SocketException {
        if (closed) {
            throw new SocketException("Socket closed");
        }
    }

    @Override
    public void bind(SocketAddress address) throws IOException {
        below().bind(address);
    }

    // Figures.

    /**
     * The connection's figures now.
     *
     * @return figures, which do not change
     */
    public AlccStatistics statistics() {
        Channel agreed = channel;
        return agreed == null ? new AlccStatistics() : agreed.statistics();
    }

    /**
     * Shows somebody the figures, from the agreement of both ends on until the connection has ended, on a thread of its
     * own. Nothing is shown of a connection that is plain. One listener; another one takes its place.
     *
     * @param seen who sees them; null: nobody any more
     * @param everyMillis how often, in milliseconds, at least 1
     */
    public synchronized void setListener(AlccListener seen, int everyMillis) {
        if (everyMillis < 1) {
            throw new IllegalArgumentException("figures every " + everyMillis + " ms");
        }
        if (listener != null) {
            listener.end();
        }
        listener = seen == null ? null : new ListenerThread(this, seen, everyMillis);
        if (listener != null && channel != null) {
            listener.start();
        }
    }

    /** Whether nothing will come or leave any more. */
    boolean isOver() {
        Channel agreed = channel;
        return agreed == null ? closed : agreed.isOver();
    }

    // Streams.

    @Override
    public InputStream getInputStream() throws IOException {
        checkConnected();
        if (inputShutdown) {
            throw new SocketException("Socket input is shutdown");
        }
        Channel agreed = channel;
        return agreed == null ? below.getInputStream() : new Input(agreed);
    }

    @Override
    public OutputStream getOutputStream() throws IOException {
        checkConnected();
        if (outputShutdown) {
            throw new SocketException("Socket output is shutdown");
        }
        Channel agreed = channel;
        return agreed == null ? below.getOutputStream() : new Output(agreed);
    }

    private void checkConnected() throws SocketException {
        checkOpen();
        if (!isConnected()) {
            throw new SocketException("Socket is not connected");
        }
    }

    private final class Input extends InputStream {
        private final Channel channel;
        private byte[] one;

        Input(Channel channel) {
            this.channel = channel;
        }

        @Override
        public int read() throws IOException {
            if (one == null) {
                one = new byte[1];
            }
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
        }

        @Override
        public int read(byte[] bytes, int at, int count) throws IOException {
            check(bytes, at, count);
            return count == 0 ? 0 : channel.read(bytes, at, count, timeout);
        }

        @Override
        public int available() throws IOException {
            return channel.available();
        }

        @Override
        public void close() throws IOException {
            AlccSocket.this.close();
        }
    }

    private final class Output extends OutputStream {
        private final Channel channel;

        Output(Channel channel) {
            this.channel = channel;
        }

        @Override
        public void write(int one) throws IOException {
            write(new byte[] {(byte) one}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int at, int count) throws IOException {
            check(bytes, at, count);
            channel.write(bytes, at, count);
        }

        @Override
        public void flush() throws IOException {
            channel.flush();
        }

        @Override
        public void close() throws IOException {
            AlccSocket.this.close();
        }
    }

    private static void check(byte[] bytes, int at, int count) {
        if ((at | count) < 0 || count > bytes.length - at) {
            throw new IndexOutOfBoundsException(count + " bytes at " + at + " of " + bytes.length);
        }
    }

    // Ends.

    @Override
    public void shutdownInput() throws IOException {
        checkConnected();
        inputShutdown = true;
        Channel agreed = channel;
        if (agreed == null) {
            below.shutdownInput();
        } else {
            agreed.shutdownInput();
        }
    }

    @Override
    public void shutdownOutput() throws IOException {
        checkConnected();
        outputShutdown = true;
        Channel agreed = channel;
        if (agreed == null) {
            below.shutdownOutput();
        } else {
            agreed.shutdownOutput();
        }
    }

    @Override
    public void close() throws IOException {
        Socket socket;
        Channel agreed;
        synchronized (this) {
            if (closed) {
                return;
            }
            closed = true;
            socket = below;
            agreed = channel;
        }
        if (agreed != null) {
            agreed.close(abort);
        } else if (socket != null) {
            socket.close();
        }
    }

    // What Socket says of itself.

    @Override
    public boolean isClosed() {
        return closed;
    }

    @Override
    public boolean isConnected() {
        Socket socket = below;
        return socket != null && socket.isConnected();
    }

    @Override
    public boolean isBound() {
        Socket socket = below;
        return socket != null && socket.isBound();
    }

    @Override
    public boolean isInputShutdown() {
        return inputShutdown;
    }

    @Override
    public boolean isOutputShutdown() {
        return outputShutdown;
    }

    @Override
    public InetAddress getInetAddress() {
        Socket socket = below;
        return socket == null ? null : socket.getInetAddress();
    }

    @Override
    public InetAddress getLocalAddress() {
        Socket socket = below;
        return socket == null ? new InetSocketAddress(0).getAddress() : socket.getLocalAddress();
    }

    @Override
    public int getPort() {
        Socket socket = below;
        return socket == null ? 0 : socket.getPort();
    }

    @Override
    public int getLocalPort() {
        Socket socket = below;
        return socket == null ? -1 : socket.getLocalPort();
    }

    @Override
    public SocketAddress getRemoteSocketAddress() {
        Socket socket = below;
        return socket == null ? null : socket.getRemoteSocketAddress();
    }

    @Override
    public SocketAddress getLocalSocketAddress() {
        Socket socket = below;
        return socket == null ? null : socket.getLocalSocketAddress();
    }

    @Override
    public SocketChannel getChannel() {
        return null;
    }

    @Override
    public String toString() {
        Channel agreed = channel;
        return "AlccSocket[" + getRemoteSocketAddress() + (agreed == null ? "" : ", " + agreed.statistics()) + "]";
    }

    // Options: of this socket where it keeps them, else of the one below.

    @Override
    public void setSoTimeout(int milliseconds) throws SocketException {
        checkOpen();
        if (milliseconds < 0) {
            throw new IllegalArgumentException("a timeout of " + milliseconds + " ms");
        }
        timeout = milliseconds;
        if (channel == null && isConnected()) {
            below.setSoTimeout(milliseconds);
        }
    }

    @Override
    public int getSoTimeout() throws SocketException {
        checkOpen();
        return timeout;
    }

    @Override
    public void setTcpNoDelay(boolean on) throws SocketException {
        checkOpen();
        noDelay = on;
        Channel agreed = channel;
        if (agreed != null) {
            agreed.setNoDelay(on);
        } else {
            below().setTcpNoDelay(on);
        }
    }

    @Override
    public boolean getTcpNoDelay() throws SocketException {
        checkOpen();
        return noDelay;
    }

    @Override
    public void setSoLinger(boolean on, int seconds) throws SocketException {
        below().setSoLinger(on, seconds);
        abort = on && seconds == 0;
    }

    @Override
    public int getSoLinger() throws SocketException {
        return below().getSoLinger();
    }

    @Override
    public void setKeepAlive(boolean on) throws SocketException {
        below().setKeepAlive(on);
    }

    @Override
    public boolean getKeepAlive() throws SocketException {
        return below().getKeepAlive();
    }

    @Override
    public void setSendBufferSize(int size) throws SocketException {
        below().setSendBufferSize(size);
    }

    @Override
    public int getSendBufferSize() throws SocketException {
        return below().getSendBufferSize();
    }

    @Override
    public void setReceiveBufferSize(int size) throws SocketException {
        below().setReceiveBufferSize(size);
    }

    @Override
    public int getReceiveBufferSize() throws SocketException {
        return below().getReceiveBufferSize();
    }

    @Override
    public void setReuseAddress(boolean on) throws SocketException {
        below().setReuseAddress(on);
    }

    @Override
    public boolean getReuseAddress() throws SocketException {
        return below().getReuseAddress();
    }

    @Override
    public void setTrafficClass(int trafficClass) throws SocketException {
        below().setTrafficClass(trafficClass);
    }

    @Override
    public int getTrafficClass() throws SocketException {
        return below().getTrafficClass();
    }

    @Override
    public void setPerformancePreferences(int connectionTime, int latency, int bandwidth) {
        // No system does anything about them.
    }

    @Override
    public void setOOBInline(boolean on) throws SocketException {
        throw noUrgentData();
    }

    @Override
    public boolean getOOBInline() {
        return false;
    }

    @Override
    public void sendUrgentData(int data) throws IOException {
        throw noUrgentData();
    }

    private static SocketException noUrgentData() {
        return new SocketException("there is no urgent data in frames");
    }
}
