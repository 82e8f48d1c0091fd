package cellpace.alcc;

/** Shows the figures of a connection to a listener. */
final class ListenerThread extends Thread {
    private final AlccSocket socket;
    private final AlccListener listener;
    private final int everyMillis;
    private boolean ended;

    ListenerThread(AlccSocket socket, AlccListener listener, int everyMillis) {
        super("alcc-listener");
        setDaemon(true);
        this.socket = socket;
        this.listener = listener;
        this.everyMillis = everyMillis;
    }

    synchronized void end() {
        ended = true;
        notifyAll();
    }

    @Override
    public void run() {
        boolean over;
        do {
            over = socket.isOver();
            listener.onStatistics(socket.statistics());
        } while (!over && goesOn());
    }

    private synchronized boolean goesOn() {
        try {
            if (!ended) {
                wait(everyMillis);
            }
        } catch (InterruptedException interrupted) {
            return false;
        }
        return !ended;
    }
}
