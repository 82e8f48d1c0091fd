package cellpace.alcc;

import java.net.SocketAddress;
import java.util.Iterator;
import java.util.LinkedHashMap;

/** Servers that gave no answer to a hello, for an hour, so that not each connection has to find out. */
final class PlainServers {
    private static final long NANOS = 3_600_000_000_000L;
    private static final int MOST = 256;

    private final LinkedHashMap<SocketAddress, Long> since = new LinkedHashMap<SocketAddress, Long>();

    synchronized void add(SocketAddress server) {
        since.remove(server);
        since.put(server, System.nanoTime());
        Iterator<SocketAddress> oldest = since.keySet().iterator();
        if (since.size() > MOST) {
            oldest.next();
            oldest.remove();
        }
    }

    synchronized boolean contains(SocketAddress server) {
        Long time = since.get(server);
        return time != null && System.nanoTime() - time < NANOS;
    }
}
