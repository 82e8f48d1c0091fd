package org.example.upload;

import android.content.Context;
import android.graphics.Canvas;
import android.graphics.Color;
import android.graphics.Paint;
import android.graphics.Path;
import android.view.View;
import cellpace.alcc.AlccStatistics;

/** The last minute of an upload: what was acknowledged in Mbit/s, and the delay in queues in ms. */
final class ChartView extends View {
    /** Ten figures a second, for a minute. */
    private static final int POINTS = 600;
    /** Over which the rate is taken: half a second. */
    private static final int SPAN = 5;

    private final float[] rates = new float[POINTS];
    private final float[] delays = new float[POINTS];
    private final long[] acked = new long[POINTS];
    private final long[] ages = new long[POINTS];
    private int count;
    private final Paint paint = new Paint(Paint.ANTI_ALIAS_FLAG);
    private final Path path = new Path();

    ChartView(Context context) {
        super(context);
        paint.setStrokeWidth(3);
        paint.setTextSize(32);
    }

    /** Forgets the last upload. */
    void clear() {
        count = 0;
        invalidate();
    }

    /** On the main thread. */
    void add(AlccStatistics statistics) {
        if (statistics.lastRttMicros() < 0) {
            return;
        }
        int at = count % POINTS;
        int before = Math.max(count - SPAN, 0) % POINTS;
        acked[at] = statistics.ackedBytes();
        ages[at] = statistics.ageMicros();
        long micros = ages[at] - ages[before];
        // Bits in a microsecond are Mbit/s.
        rates[at] = micros > 0 ? 8f * (acked[at] - acked[before]) / micros : 0;
        delays[at] = (statistics.lastRttMicros() - statistics.minRttMicros()) / 1000f;
        count++;
        invalidate();
    }

    @Override
    protected void onDraw(Canvas canvas) {
        int half = getHeight() / 2;
        draw(canvas, rates, 0, half, Color.rgb(0, 114, 178), "Mbit/s");
        draw(canvas, delays, half, half, Color.rgb(213, 94, 0), "ms in queues");
    }

    private void draw(Canvas canvas, float[] values, int top, int height, int color, String unit) {
        float most = 1;
        int first = Math.max(count - POINTS, 0);
        for (int i = first; i < count; i++) {
            most = Math.max(most, values[i % POINTS]);
        }
        path.reset();
        for (int i = first; i < count; i++) {
            float x = (float) (i - first) / POINTS * getWidth();
            float y = top + height - values[i % POINTS] / most * (height - 50);
            if (i == first) {
                path.moveTo(x, y);
            } else {
                path.lineTo(x, y);
            }
        }
        paint.setColor(color);
        paint.setStyle(Paint.Style.STROKE);
        canvas.drawPath(path, paint);
        paint.setStyle(Paint.Style.FILL);
        float now = count == 0 ? 0 : values[(count - 1) % POINTS];
        canvas.drawText(Math.round(now * 10) / 10f + " of " + Math.round(most) + " " + unit, 10, top + 36, paint);
    }
}
