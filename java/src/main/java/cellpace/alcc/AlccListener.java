package cellpace.alcc;

/** Sees figures of a connection while it is open. */
public interface AlccListener {
    /**
     * Called at the times that were asked for and once when the connection has ended, on a thread of its own: it may
     * take its time, and must not touch views.
     *
     * @param statistics the figures now
     */
    void onStatistics(AlccStatistics statistics);
}
