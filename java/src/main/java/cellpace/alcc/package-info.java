/**
 * Congestion control for uploads and downloads of apps, inside an ordinary TCP connection.
 *
 * <p>{@link cellpace.alcc.AlccSocket} is a socket whose packets are numbered and acknowledged inside the stream
 * (the client/server variant of ALCC), and leave as a learnt Markov table says
 * ({@link cellpace.alcc.FlatTable}). {@link cellpace.alcc.AlccSocketFactory} gives such sockets to HTTP stacks,
 * {@link cellpace.alcc.AlccProxy} serves those that use TLS. The other end is {@code cellpace proxy --driver
 * client-server}, or {@code cellpace run} with it.
 *
 * <p>Plain Java 8, Android's API level 21, no native code and no dependency. All times are taken from
 * {@link java.lang.System#nanoTime()}.
 */
package cellpace.alcc;
