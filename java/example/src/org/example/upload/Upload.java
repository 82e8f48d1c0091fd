package org.example.upload;

import cellpace.alcc.AlccListener;
import cellpace.alcc.AlccOptions;
import cellpace.alcc.AlccSocket;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetSocketAddress;

/** One upload by HTTP, on a thread of its own: the main thread must not touch sockets. */
final class Upload extends Thread {
    /** Called on the upload's thread. */
    interface Outcome {
        void onEnd(String text);
    }

    private static final int CONNECT_MILLIS = 15_000;
    private static final int ANSWER_MILLIS = 60_000;
    private static final int FIGURES_MILLIS = 100;

    private final AlccSocket socket = new AlccSocket(AlccOptions.defaults());
    private final String host;
    private final int port;
    private final String path;
    private final InputStream file;
    private final long length;
    private final Outcome outcome;

    /** The stream is closed at the end; the listener sees figures ten times a second, on another thread. */
    Upload(String host, int port, String path, InputStream file, long length, AlccListener figures, Outcome outcome) {
        super("upload");
        this.host = host;
        this.port = port;
        this.path = path;
        this.file = file;
        this.length = length;
        this.outcome = outcome;
        socket.setListener(figures, FIGURES_MILLIS);
    }

    @Override
    public void run() {
        String text;
        try {
            text = put();
        } catch (IOException error) {
            text = "Failed: " + error.getMessage();
        } finally {
            close();
        }
        outcome.onEnd(text);
    }

    private String put() throws IOException {
        socket.connect(new InetSocketAddress(host, port), CONNECT_MILLIS);
        socket.setSoTimeout(ANSWER_MILLIS);
        OutputStream out = socket.getOutputStream();
        String head = "PUT " + path + " HTTP/1.1\r\nHost: " + host + ":" + port + "\r\nContent-Length: " + length
                + "\r\nConnection: close\r\n\r\n";
        out.write(head.getBytes("US-ASCII"));
        byte[] bytes = new byte[16 << 10];
        for (int count; (count = file.read(bytes)) >= 0; ) {
            out.write(bytes, 0, count);
        }
        out.flush();
        BufferedReader answer = new BufferedReader(new InputStreamReader(socket.getInputStream(), "US-ASCII"));
        String line = answer.readLine();
        return line == null ? "The server gave no answer" : line;
    }

    /** Ends the upload at once, from any thread. */
    void cancel() {
        try {
            socket.setSoLinger(true, 0);
        } catch (IOException closed) {
            // Then there is nothing to cancel.
        }
        close();
    }

    private void close() {
        try {
            socket.close();
            file.close();
        } catch (IOException ignored) {
            // The outcome is known without it.
        }
    }
}
