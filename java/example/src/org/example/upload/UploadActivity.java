package org.example.upload;

import android.app.Activity;
import android.content.Intent;
import android.content.res.AssetFileDescriptor;
import android.net.Uri;
import android.os.Bundle;
import android.view.View;
import android.widget.Button;
import android.widget.EditText;
import android.widget.LinearLayout;
import android.widget.ProgressBar;
import android.widget.TextView;
import cellpace.alcc.AlccListener;
import cellpace.alcc.AlccStatistics;
import java.io.FileNotFoundException;
import java.io.IOException;

/** Uploads a file and shows how: what the server has acknowledged, the rate, and the delay in queues. */
public final class UploadActivity extends Activity {
    private static final int PICK = 1;
    private static final int STEPS = 1000;

    private EditText server;
    private ProgressBar progress;
    private TextView text;
    private ChartView chart;
    private Upload upload;

    @Override
    protected void onCreate(Bundle saved) {
        super.onCreate(saved);
        LinearLayout column = new LinearLayout(this);
        column.setOrientation(LinearLayout.VERTICAL);
        server = new EditText(this);
        server.setText("upload.example.org:8080");
        column.addView(server);
        column.addView(button("Choose a file and upload it", new View.OnClickListener() {
            @Override
            public void onClick(View view) {
                startActivityForResult(new Intent(Intent.ACTION_GET_CONTENT).setType("*/*")
                        .addCategory(Intent.CATEGORY_OPENABLE), PICK);
            }
        }));
        column.addView(button("Cancel", new View.OnClickListener() {
            @Override
            public void onClick(View view) {
                cancel();
            }
        }));
        progress = new ProgressBar(this, null, android.R.attr.progressBarStyleHorizontal);
        progress.setMax(STEPS);
        column.addView(progress);
        text = new TextView(this);
        column.addView(text);
        chart = new ChartView(this);
        column.addView(chart, new LinearLayout.LayoutParams(LinearLayout.LayoutParams.MATCH_PARENT, 0, 1));
        setContentView(column);
    }

    private Button button(String label, View.OnClickListener listener) {
        Button button = new Button(this);
        button.setText(label);
        button.setOnClickListener(listener);
        return button;
    }

    @Override
    protected void onActivityResult(int request, int result, Intent data) {
        if (request != PICK || result != RESULT_OK || data == null) {
            return;
        }
        try {
            begin(data.getData());
        } catch (IOException | NumberFormatException error) {
            text.setText("Cannot begin: " + error.getMessage());
        }
    }

    private void begin(Uri uri) throws IOException {
        cancel();
        String[] address = server.getText().toString().trim().split(":");
        if (address.length != 2) {
            throw new IOException("the server is HOST:PORT");
        }
        AssetFileDescriptor file = getContentResolver().openAssetFileDescriptor(uri, "r");
        if (file == null) {
            throw new FileNotFoundException(uri.toString());
        }
        final long length = file.getLength();
        if (length < 0) {
            file.close();
            throw new IOException("the file's length is unknown");
        }
        chart.clear();
        text.setText("Connecting");
        upload = new Upload(address[0], Integer.parseInt(address[1]), "/upload", file.createInputStream(), length,
                new AlccListener() {
                    @Override
                    public void onStatistics(AlccStatistics statistics) {
                        show(statistics, length);
                    }
                }, new Upload.Outcome() {
                    @Override
                    public void onEnd(String outcome) {
                        say(outcome);
                    }
                });
        upload.start();
    }

    /** On the listener's thread. */
    private void show(final AlccStatistics statistics, final long length) {
        runOnUiThread(new Runnable() {
            @Override
            public void run() {
                progress.setProgress((int) Math.min(STEPS, STEPS * statistics.ackedBytes() / Math.max(length, 1)));
                text.setText(statistics.toString());
                chart.add(statistics);
            }
        });
    }

    private void say(final String outcome) {
        runOnUiThread(new Runnable() {
            @Override
            public void run() {
                text.setText(outcome);
            }
        });
    }

    private void cancel() {
        if (upload != null) {
            upload.cancel();
            upload = null;
        }
    }

    @Override
    protected void onDestroy() {
        cancel();
        super.onDestroy();
    }
}
