package cellpace.alcc;

import java.net.SocketException;
import java.util.ArrayDeque;

/** Connections that were closed and still deliver. One thread sees that none stays for ever, and ends with the last. */
final class Lingering {
    /** The longest that a closed connection stays, in milliseconds: docs/alcc-wire.md. Shorter in tests. */
    static volatile long milliseconds = 60_000;

    /** How often it is looked at, in milliseconds. */
    private static final long INTERVAL = 100;

    private static final ArrayDeque<Lingering> ALL = new ArrayDeque<Lingering>();
    private static boolean running;

    private final Channel channel;
    private final long until = System.nanoTime() + milliseconds * 1_000_000;

    private Lingering(Channel channel) {
        this.channel = channel;
    }

    static void add(Channel channel) {
        synchronized (ALL) {
            ALL.add(new Lingering(channel));
            if (!running) {
                Thread thread = new Thread("alcc-lingering") {
                    @Override
                    public void run() {
                        watch();
                    }
                };
                thread.setDaemon(true);
                thread.start();
                running = true;
            }
        }
    }

    private static void watch() {
        synchronized (ALL) {
            while (!ALL.isEmpty()) {
                for (int count = ALL.size(); count > 0; count--) {
                    Lingering one = ALL.remove();
                    if (!one.isDone()) {
                        ALL.add(one);
                    }
                }
                try {
                    ALL.wait(INTERVAL);
                } catch (InterruptedException ignored) {
                    // Nobody has a reason to; the next round comes a little earlier.
                }
            }
            running = false;
        }
    }

    private boolean isDone() {
        if (System.nanoTime() - until >= 0) {
            channel.abort(new SocketException("the other end did not end its stream"));
        }
        return channel.isOver();
    }
}
