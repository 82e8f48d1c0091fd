// What our charts have and uPlot has not. The playground takes this file, too.

/** An outline that is level over each bin: uPlot's own steps turn at the bins' middles. */
function wholeBins(u, k) {
  const times = u.data[0];
  const half = (times[1] - times[0]) / 2 || times[0];
  const [stroke, fill] = [new Path2D(), new Path2D()];
  const foot = u.valToPos(0, "y", true);
  const x = (time) => u.valToPos(time, "x", true);
  fill.moveTo(x(times[0] - half), foot);
  times.forEach((time, i) => {
    const y = u.valToPos(u.data[k][i] ?? 0, "y", true);
    i ? stroke.lineTo(x(time - half), y) : stroke.moveTo(x(time - half), y);
    stroke.lineTo(x(time + half), y);
    fill.lineTo(x(time - half), y);
    fill.lineTo(x(time + half), y);
  });
  fill.lineTo(x(times.at(-1) + half), foot);
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
