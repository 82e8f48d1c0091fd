// What our charts have and uPlot has not. The playground takes this file, too.

/** An outline that is level over each bin, from halfway to the one before to halfway to the next: uPlot's own steps turn at the bins' middles. */
function wholeBins(u, k) {
  const times = u.data[0];
  const between = (i) => (times[i - 1] + times[i]) / 2;
  const begin = (i) => i ? between(i) : 2 * times[0] - end(0);
  const end = (i) => i + 1 < times.length ? between(i + 1) : i ? 2 * times[i] - between(i) : 2 * times[0];
  const [stroke, fill] = [new Path2D(), new Path2D()];
  const foot = u.valToPos(0, "y", true);
  const x = (time) => u.valToPos(time, "x", true);
  fill.moveTo(x(begin(0)), foot);
  times.forEach((_, i) => {
    const y = u.valToPos(u.data[k][i] ?? 0, "y", true);
    const [from, to] = [x(begin(i)), x(end(i))];
    i ? stroke.lineTo(from, y) : stroke.moveTo(from, y);
    stroke.lineTo(to, y);
    fill.lineTo(from, y);
    fill.lineTo(to, y);
  });
  fill.lineTo(x(end(times.length - 1)), foot);
  return { stroke, fill, clip: null, gaps: null, flags: 0 };
}

/** Places whose neighbours are gaps: no line passes there, so they get a dot. What another line alone has is no gap. */
function lonely(u, k) {
  const values = u.data[k];
  const beside = (i, step) => {
    let at = i + step;
    while (values[at] === undefined && at >= 0 && at < values.length) at += step;
    return values[at];
  };
  return values.flatMap((value, i) => known(value) && !known(beside(i, -1)) && !known(beside(i, 1)) ? [i] : []);
}

/** Ticks of a logarithmic axis; none where it has no beginning above 0. */
function logTicks(from, to, most) {
  if (!(from > 0 && to >= from && to < Infinity)) return [];
  for (const steps of [[1, 2, 5], [1, 3], [1]]) {
    const ticks = [];
    for (let decade = Math.floor(Math.log10(from)); decade <= Math.log10(to); decade++)
      for (const step of steps) {
        const tick = +(step * 10 ** decade).toPrecision(1);
        if (tick >= from && tick <= to) ticks.push(tick);
      }
    if (ticks.length <= most || steps.length === 1) return ticks;
  }
}
