package cellpace.alcc;

import cellpace.alcc.AlccException.Reason;
import java.io.IOException;
import java.io.InputStream;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;

/** The hello of a connecting end, and its answer. */
final class Handshake {
    /** Headers of IPv6 that IPv4 has not, in bytes. */
    private static final int IPV6_MORE = 20;

    private Handshake() {}

    /** Agrees on a connected socket with the other end, within so many milliseconds. */
    static Channel agree(Socket socket, AlccOptions options, int within) throws IOException {
        int more = isIpv6(socket.getInetAddress()) ? IPV6_MORE : 0;
        int segment = options.segment() - more;
        int overhead = options.overhead() + more;
        Hello hello = new Hello(Hello.VERSION, false, 0, segment, overhead, options.incoming(), "");
        // A packet is one write, and waits for nothing.
        socket.setTcpNoDelay(true);
        socket.getOutputStream().write(hello.toBytes());
        Hello answer = readAnswer(socket, within);
        answer.checkAnswer();
        Controller controller = options.controller(segment + overhead);
        Outgoing outgoing = new Outgoing(controller, segment, overhead, answer.window);
        return new Channel(socket, new Engine(outgoing, new Incoming(options.incoming())));
    }

    private static boolean isIpv6(InetAddress address) {
        return address instanceof Inet6Address;
    }

    private static Hello readAnswer(Socket socket, int within) throws IOException {
        byte[] bytes = new byte[Hello.MAX_BYTES];
        long until = System.nanoTime() + within * 1_000_000L;
        int have = 0;
        InputStream in = socket.getInputStream();
        for (int needed = Hello.PREFIX_BYTES; have < needed; needed = Hello.needed(bytes, have)) {
            int count = readWithin(socket, in, bytes, have, needed - have, until);
            if (count < 0) {
                throw new AlccException(Reason.PLAIN_PEER, "the other end closed the connection after the hello");
            }
            have += count;
        }
        socket.setSoTimeout(0);
        return Hello.decode(bytes, have);
    }

    private static int readWithin(Socket socket, InputStream in, byte[] bytes, int at, int count, long until)
            throws IOException {
        long left = (until - System.nanoTime()) / 1_000_000;
        if (left <= 0) {
            throw noAnswer();
        }
        socket.setSoTimeout((int) left);
        try {
            return in.read(bytes, at, count);
        } catch (SocketTimeoutException late) {
            throw noAnswer();
        }
    }

    private static AlccException noAnswer() {
        return new AlccException(Reason.NO_ANSWER, "no answer to the hello");
    }
}
