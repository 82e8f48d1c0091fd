package cellpace.alcc;

import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.util.concurrent.locks.LockSupport;

/**
 * An agreed connection over its TCP socket: the application's threads write, one thread of ours reads.
 *
 * <p>Who gives bytes to TCP holds {@link #giving}, not the lock: acks that become due meanwhile are left to it. So the
 * reader never waits for a writer, and two ends with full buffers cannot wait for each other.
 */
final class Channel {
    private static final int READ_BYTES = 16 << 10;
    private static final int STACK_BYTES = 128 << 10;
    /** For how long a writer sleeps that only others can wake, in nanoseconds. */
    private static final long LONG = 1_000_000_000L;

    private final Socket socket;
    private final InputStream in;
    private final OutputStream out;
    private final Engine engine;
    private final Outgoing outgoing;
    private final Incoming incoming;
    private final long start = System.nanoTime();

    /** One writer of the application at a time. */
    private final Object writers = new Object();

    /** Of all below. */
    private final Object lock = new Object();
    private final byte[] ack = new byte[FrameDecoder.ACK_BYTES];
    private boolean giving;
    private Thread waiter;
    private IOException failed;
    private boolean noDelay;
    private boolean finished;
    private boolean unread;
    private boolean closed;
    private boolean over;
    /** What had come when the application closed; more is for nobody. */
    private long unreadFrom;

    Channel(Socket socket, Engine engine) throws IOException {
        this.socket = socket;
        this.engine = engine;
        outgoing = engine.outgoing;
        incoming = engine.incoming;
        in = socket.getInputStream();
        out = socket.getOutputStream();
    }

    /** Begins to read. */
    void begin() {
        Thread reader = new Thread(null, new Runnable() {
            @Override
            public void run() {
                readAll();
            }
        }, "alcc-reader", STACK_BYTES);
        reader.setDaemon(true);
        reader.start();
    }

    private long now() {
        return System.nanoTime() - start;
    }

    // The application's writer.

    /** Returns when TCP has the bytes, but for a last packet that is not full. */
    void write(byte[] bytes, int at, int count) throws IOException {
        synchronized (writers) {
            try {
                while (count > 0) {
                    int taken = fill(bytes, at, count);
                    at += taken;
                    count -= taken;
                    await(count > 0, false);
                }
            } finally {
                forgetWaiter();
            }
        }
    }

    /** Sends a packet that is not full, too. */
    void flush() throws IOException {
        synchronized (writers) {
            try {
                checkWritable();
                await(false, true);
            } finally {
                forgetWaiter();
            }
        }
    }

    private int fill(byte[] bytes, int at, int count) throws IOException {
        synchronized (lock) {
            checkWritable();
            return giving ? 0 : outgoing.fill(bytes, at, count);
        }
    }

    /** Gives, until there is room for more, or without more until the next ack will take care of the rest. */
    private void await(boolean more, boolean urgent) throws IOException {
        for (;;) {
            boolean looked = give(more, urgent);
            long wait;
            synchronized (lock) {
                checkWritable();
                if (looked && mayGoOn(more)) {
                    return;
                }
                waiter = Thread.currentThread();
                wait = giving ? LONG : looked ? Math.min(LONG, outgoing.nextTime() - now()) : 0;
            }
            if (wait > 0) {
                LockSupport.parkNanos(this, wait);
            }
            if (Thread.interrupted()) {
                abort(new SocketException("a thread was interrupted while it wrote"));
                throw new InterruptedIOException("interrupted, and the connection is closed");
            }
        }
    }

    private boolean mayGoOn(boolean more) {
        if (giving) {
            return false;
        }
        return outgoing.isEmpty() || !outgoing.isFull() && (more || outgoing.inFlight() > 0);
    }

    private void forgetWaiter() {
        synchronized (lock) {
            waiter = null;
        }
    }

    private void checkWritable() throws IOException {
        synchronized (lock) {
            if (closed) {
                throw new SocketException("Socket closed");
            }
            if (failed != null) {
                throw again(failed);
            }
            if (finished) {
                throw new SocketException("Socket output is shutdown");
            }
        }
    }

    private static IOException again(IOException error) {
        if (error instanceof AlccException) {
            return ((AlccException) error).again();
        }
        SocketException copy = new SocketException(error.getMessage());
        copy.initCause(error);
        return copy;
    }

    // What goes to TCP.

    /**
     * Gives TCP what may leave: acks first. A packet that is not full waits for more while others are in flight, as by
     * Nagle's algorithm, unless it is {@code urgent}. Returns false if another thread gives already: it then gives what is
     * due, but does not know what is urgent.
     */
    private boolean give(boolean more, boolean urgent) throws IOException {
        for (;;) {
            byte[] bytes;
            int count;
            synchronized (lock) {
                if (giving) {
                    return false;
                }
                if (over || failed != null) {
                    return true;
                }
                long now = now();
                bytes = ack;
                count = incoming.pollAck(now, ack);
                if (count == 0 && isDue(urgent)) {
                    bytes = outgoing.packet();
                    count = outgoing.poll(now, more);
                }
                if (count == 0) {
                    return true;
                }
                giving = true;
            }
            give(bytes, count);
        }
    }

    private boolean isDue(boolean urgent) {
        return urgent || noDelay || finished || outgoing.isFull() || outgoing.inFlight() == 0;
    }

    private void give(byte[] bytes, int count) throws IOException {
        boolean given = false;
        try {
            out.write(bytes, 0, count);
            given = true;
        } catch (IOException error) {
            fail(error);
            throw again(error);
        } finally {
            synchronized (lock) {
                giving = false;
                if (given && bytes != ack) {
                    outgoing.onGiven();
                }
                LockSupport.unpark(waiter);
            }
        }
    }

    // The reader.

    private void readAll() {
        byte[] bytes = new byte[READ_BYTES];
        try {
            for (int count; (count = in.read(bytes)) >= 0; ) {
                take(bytes, count);
                give(false, true);
                giveStranded();
                if (endIfDone()) {
                    return;
                }
            }
            takeEnd();
        } catch (IOException error) {
            fail(error);
        } finally {
            end();
        }
    }

    private void take(byte[] bytes, int count) throws IOException {
        synchronized (lock) {
            engine.takeInput(now(), bytes, 0, count);
            LockSupport.unpark(waiter);
            lock.notifyAll();
        }
    }

    /** With nothing in flight no ack will come, and a packet whose writer has gone would stay for ever. */
    private void giveStranded() throws IOException {
        for (;;) {
            long wait;
            synchronized (lock) {
                boolean stranded = outgoing.inFlight() == 0 && !outgoing.isEmpty();
                if (!stranded || giving || waiter != null || failed != null) {
                    return;
                }
                wait = Math.min(LONG, outgoing.nextTime() - now());
                if (outgoing.nextTime() == Long.MAX_VALUE) {
                    return;
                }
            }
            LockSupport.parkNanos(this, wait);
            give(false, true);
        }
    }

    private void takeEnd() throws IOException {
        synchronized (lock) {
            engine.takeEnd();
        }
    }

    /** Whether the connection is over: both streams have ended, or nobody will read what comes. */
    private boolean endIfDone() throws IOException {
        synchronized (lock) {
            if (giving || !outgoing.isAcked()) {
                return false;
            }
            return engine.isDrained() || closed && incoming.receivedBytes() > unreadFrom;
        }
    }

    private void end() {
        synchronized (lock) {
            over = true;
            if (failed == null && !isWhole()) {
                failed = new SocketException("the connection was closed");
            }
            LockSupport.unpark(waiter);
            lock.notifyAll();
        }
        closeSocket();
    }

    private void fail(IOException error) {
        synchronized (lock) {
            if (failed == null && !isWhole()) {
                failed = error;
            }
            LockSupport.unpark(waiter);
            lock.notifyAll();
        }
        closeSocket();
    }

    /** Whether both streams are whole: whatever becomes of the connection then is a normal end. */
    private boolean isWhole() {
        return incoming.isEnded() && outgoing.isAcked();
    }

    private void closeSocket() {
        try {
            socket.close();
        } catch (IOException ignored) {
            // There is nothing left to be done with it.
        }
    }

    // The application's reader.

    /** As of {@link InputStream#read(byte[], int, int)}; {@code timeout} in ms, 0: none. */
    int read(byte[] to, int at, int count, int timeout) throws IOException {
        int taken;
        synchronized (lock) {
            awaitReadable(timeout);
            taken = incoming.available() == 0 ? -1 : incoming.read(to, at, count);
        }
        if (taken > 0) {
            giveAck();
        }
        return taken;
    }

    private void awaitReadable(int timeout) throws IOException {
        long until = System.nanoTime() + timeout * 1_000_000L;
        for (;;) {
            if (closed) {
                throw new SocketException("Socket closed");
            }
            if (unread || incoming.available() > 0 || incoming.isEnded()) {
                return;
            }
            if (failed != null) {
                throw again(failed);
            }
            long left = timeout == 0 ? 0 : until - System.nanoTime();
            if (timeout != 0 && left <= 0) {
                throw new SocketTimeoutException("Read timed out");
            }
            try {
                // Rounded up: 0 would wait for ever.
                lock.wait((left + 999_999) / 1_000_000);
            } catch (InterruptedException interrupted) {
                throw new InterruptedIOException("interrupted");
            }
        }
    }

    int available() throws IOException {
        synchronized (lock) {
            if (closed) {
                throw new SocketException("Socket closed");
            }
            return incoming.available();
        }
    }

    /** An ack that opens the window. If it cannot be written, whoever reads next learns of it. */
    private void giveAck() {
        try {
            give(false, false);
        } catch (IOException ignored) {
            // The failure is kept.
        }
    }

    // How it ends.

    void setNoDelay(boolean on) {
        synchronized (lock) {
            noDelay = on;
        }
    }

    /** The application sends nothing more. */
    void shutdownOutput() throws IOException {
        synchronized (writers) {
            synchronized (lock) {
                if (failed != null) {
                    throw again(failed);
                }
                finished = true;
                outgoing.finish();
            }
            give(false, true);
        }
    }

    /** The application reads nothing more. */
    void shutdownInput() {
        synchronized (lock) {
            unread = true;
            incoming.discard();
            lock.notifyAll();
        }
        giveAck();
    }

    /**
     * The application is done. What TCP has, and the last packet, are delivered behind its back, for which a thread of ours
     * stays until the other end has ended its stream, too, for 60 s at most ({@link Lingering}).
     */
    void close(boolean abort) {
        synchronized (lock) {
            if (closed) {
                return;
            }
            closed = true;
            finished = true;
            outgoing.finish();
            incoming.discard();
            unreadFrom = incoming.receivedBytes();
            LockSupport.unpark(waiter);
            lock.notifyAll();
        }
        if (abort || isOver()) {
            closeSocket();
            return;
        }
        giveAck();
        Lingering.add(this);
    }

    /** Whether nothing will come or leave any more. */
    boolean isOver() {
        synchronized (lock) {
            return over || failed != null;
        }
    }

    /** Gives up at once. */
    void abort(IOException why) {
        fail(why);
    }

    AlccStatistics statistics() {
        synchronized (lock) {
            return new AlccStatistics(outgoing, incoming, now());
        }
    }
}
