// What the page tells tests.

/** Opened with #probe the page looks at its own pixels: is every line's colour there? */
function probe() {
  told.inked = {};
  for (const plot of plots) {
    const { width, height } = plot.ctx.canvas;
    const pixels = plot.ctx.getImageData(0, 0, width, height).data;
    const wanted = plot.series.slice(1).filter((series) => series.show !== false).map((series) => rgb(typeof series.stroke === "function" ? series.stroke(plot, 1) : series.stroke));
    const seen = wanted.map((colour) => {
      let count = 0;
      for (let i = 0; i < pixels.length; i += 4)
        if (pixels[i + 3] > 128 && Math.abs(pixels[i] - colour[0]) + Math.abs(pixels[i + 1] - colour[1]) + Math.abs(pixels[i + 2] - colour[2]) < 24) count++;
      return count;
    });
    const part = plot.section.slice(1);
    told.inked[part] = (told.inked[part] ?? []).concat([seen]);
  }
  told.points = document.querySelectorAll("#scatter .drawing .point").length;
  told.curves = document.querySelectorAll("#profiles .line").length;
  told.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  told.width = document.documentElement.clientWidth;
  told.dark = matchMedia("(prefers-color-scheme: dark)").matches;
}

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}
