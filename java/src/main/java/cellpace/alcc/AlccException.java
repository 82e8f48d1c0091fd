package cellpace.alcc;

import java.net.SocketException;

/** Why a connection that carries acks inside its stream cannot go on. */
public final class AlccException extends SocketException {
    /** What went wrong. */
    public enum Reason {
        /** The other end does not speak the protocol. */
        PLAIN_PEER,
        /** No answer to the hello came in time. */
        NO_ANSWER,
        /** The answer begins as one and is none: damaged, or of a length that cannot be. */
        HELLO,
        /** The other end said no, or asks for what this end cannot do. */
        REFUSED,
        /** What came is no frame, or not the one that has to come next. */
        FRAME,
        /** An ack covers what was never sent, or takes back an earlier one. */
        ACK,
        /** More data came than the window allowed. */
        OVERRUN,
        /** The connection ended before the stream did. */
        TRUNCATED
    }

    private static final long serialVersionUID = 1;

    /** What went wrong. */
    private final Reason reason;

    AlccException(Reason reason, String message) {
        super(message);
        this.reason = reason;
    }

    /**
     * What went wrong.
     *
     * @return the reason
     */
    public Reason reason() {
        return reason;
    }

    /** The same for another thread, with its own stack. */
    AlccException again() {
        AlccException copy = new AlccException(reason, getMessage());
        copy.initCause(this);
        return copy;
    }
}
