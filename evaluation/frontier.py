#!/usr/bin/env python3
"""Where Pace lies beside the efficient frontier of all other controllers, with their parameters swept.

    python3 evaluation/frontier.py path/to/cellpace [training]

Writes the tables of docs/validation/pace.md and the page out/frontier.html: a picture per trace, with every
point of the sweep, the frontier and Pace. With `training`, the traces on which Pace was chosen are run instead
and nothing in docs/ is written; with `traces`, the others are named. Recorded traces come from the folder CELLPACE_TRACES; needs it.

The efficient frontier of a trace: of the points (utilization, p95 of the queue delay), those that no other has
both more utilization and less delay than. Between two of them it is a straight line, below the lowest utilization its
delay stays the same. Parameters differ from trace to trace along it, Pace's never do.
"""
import html
import json
import sys

from program import ROOT, TRACES, compare, table

# All recorded traces in the order of the alphabet, the first, third, ... for training. Of the twelve channels of
# MDI the even ones.
RECORDED = ["att-lte-driving.down", "att-lte-driving.up", "beachfront-walk.down", "campus-walk.down",
            "city-drive.down", "highway-3g.down", "highway-drive.down", "rapid-change.down",
            "tmobile-umts-driving.down", "tmobile-umts-driving.up", "verizon-lte-short.down", "verizon-lte-short.up"]
CHANNELS = [f"mdi/channel{number:02}.down" for number in range(8)]
TRAINING = RECORDED[::2] + CHANNELS[::2]
TEST = RECORDED[1::2] + CHANNELS[1::2]

OURS = "pace"
SWEEP = {
    "vegas": ["vegas"] + [f"vegas:alpha={alpha},beta={2 * alpha}" for alpha in (1, 3, 4, 6, 8, 12, 16, 24, 32)],
    "copa": ["copa"] + [f"copa:delta={delta}{mode}" for delta in (0.3, 0.2, 0.1, 0.05)
                        for mode in ("", ",mode=constant")],
    "sprout": ["sprout", "sprout:max_rate=auto", "sprout:confidence=25%", "sprout:confidence=50%",
               "sprout:confidence=75%", "sprout:look_ahead=3", "sprout:look_ahead=4", "sprout:look_ahead=6"],
    "verus": [f"verus:r={r}" for r in (1.3, 1.5, 2, 3, 4, 6)],
    "ledbat": [f"ledbat:target={target}ms" for target in (5, 10, 15, 20, 30, 50, 75, 100)],
    "bbr": ["bbr"],
    "mdi": ["mdi"],
    "cubic": ["cubic"],
    "bbr3": ["bbr3", "bbr3:cellular"],
    "c2tcp": ["c2tcp"],
    "prague": ["prague"],
    "vivace": ["vivace"],
}
CONDITIONS = {
    "10 ms": ["--rtt", "10ms"], "100 ms": ["--rtt", "100ms"], "200 ms": ["--rtt", "200ms"],
    "delayed acks": ["--acks", "delayed:40ms"], "uplink trace": ["--uplink", "campus-walk.down"],
    "1 % loss": ["--loss", "1%"], "reordering": ["--impair", "reorder=1%/5ms"],
    "handovers": ["--handover", "10s/200ms/80ms/lost"], "base RTT 30 to 90 ms": ["--rtt", "random:30ms..90ms/5s"],
}
CONDITION_TRACES = ["campus-walk.down", "verizon-lte-short.up"]
DURATION = "120s"


def controllers():
    """All points of the sweep."""
    return [cc for ccs in SWEEP.values() for cc in ccs]


def points(traces, options=()):
    """(utilization, p95 in ms) by trace and controller."""
    runs = compare([f"{TRACES}/{trace}" for trace in traces], [OURS, *controllers()], "--duration", DURATION,
                   *options)["runs"]
    found = {}
    for trace, run in zip((trace for trace in traces for _ in range(len(runs) // len(traces))), runs):
        found.setdefault(trace, {})[run["cc"]] = (run["utilization"], run["queue_delay_ms"]["p95"])
    return found


def frontier(cells):
    """Points of the others that none of them beats in both, by utilization."""
    kept = []
    for cc, (utilization, p95) in sorted(cells.items(), key=lambda item: (-item[1][0], item[1][1])):
        if cc != OURS and (not kept or p95 < kept[-1][1]):
            kept.append((utilization, p95, cc))
    return kept[::-1]


def at_utilization(line, utilization):
    """The frontier's p95 at a utilization; none above its highest."""
    for before, after in zip([(0.0, line[0][1], "")] + line, line):
        if utilization <= after[0]:
            share = (utilization - before[0]) / (after[0] - before[0]) if after[0] > before[0] else 1
            return before[1] + share * (after[1] - before[1])
    return None


def at_delay(line, p95):
    """The frontier's utilization at a p95; that of its lowest point below it."""
    below = line[0]
    for point in line[1:]:
        if point[1] > p95:
            share = max(0.0, p95 - below[1]) / (point[1] - below[1])
            return below[0] + share * (point[0] - below[0])
        below = point
    return below[0]


def nearest(line, utilization):
    return min(line, key=lambda point: abs(point[0] - utilization))[2]


def alone(found):
    """The table of traces, and its answer in words."""
    rows, ratios = [], []
    for trace, cells in found.items():
        utilization, p95 = cells[OURS]
        line = frontier(cells)
        other = at_utilization(line, utilization)
        ratio = p95 / other if other else None
        ratios.append(ratio)
        rows.append([trace, f"{100 * utilization:.1f} % / {p95:.0f} ms", f"{other:.0f} ms" if other else "–",
                     f"{ratio:.2f}" if ratio else "–", f"`{nearest(line, utilization)}`"])
    within = [ratio for ratio in ratios if ratio]
    product = 1.0
    for ratio in within:
        product *= ratio
    answer = (f"{product ** (1 / len(within)):.2f} of the frontier's p95 at the same utilization (geometric mean of {len(within)} "
              f"traces, {min(within):.2f} to {max(within):.2f}; {sum(ratio <= 0.75 for ratio in within)} at 0.75 or less, "
              f"{sum(ratio <= 1 for ratio in within)} at 1 or less)")
    header = ["trace", "`pace`: utilization / p95", "the frontier's p95 there", "ratio", "its nearest point"]
    return table(header, rows), answer


def conditions():
    """Pace's utilization as a share of the best of the others that has no more delay."""
    rows = []
    for name, options in CONDITIONS.items():
        options = [f"{TRACES}/{word}" if word.endswith(".down") else word for word in options]
        row = [name]
        for cells in points(CONDITION_TRACES, options).values():
            utilization, p95 = cells[OURS]
            best = at_delay(frontier(cells), p95)
            row.append(f"{100 * utilization:.1f} % / {p95:.0f} ms: {utilization / best:.2f}")
        rows.append(row)
    return table(["path"] + CONDITION_TRACES, rows)


def bound():
    """What crates/lab/examples/bound.rs has printed for the same traces."""
    lines = (ROOT / "out" / "bound.txt").read_text().splitlines()
    # Every second of its utilizations.
    shares = [f"{word} %" for word in lines[0].removeprefix("p95 in ms at").replace("%", " ").split()[::2]]
    rows = [[trace, *(f"{word} ms" if word != "-" else "–" for word in line.split()[1::2])]
            for trace, line in zip(TEST, lines[1:])]
    return table(["trace", *shares], rows)


# The page ----------------------------------------------------------------------------------------------

COLOURS = {"vegas": "#4269d0", "copa": "#efb118", "sprout": "#ff725c", "verus": "#6cc5b0", "ledbat": "#3ca951",
           "bbr": "#a463f2", "mdi": "#97bbf5", "cubic": "#9c6b4e",
           "bbr3": "#5e2ca5", "c2tcp": "#8a8f00", "prague": "#e377c2", "vivace": "#17becf"}


def picture(trace, cells, width=460, height=300):
    """Utilization to the right, p95 upwards on a logarithmic scale."""
    from math import log10
    shown = {cc: point for cc, point in cells.items() if point[0] > 0.5 and 0 < point[1] < 5000}
    low, high = min(p for _, p in shown.values()), max(p for _, p in shown.values())

    def x(utilization):
        return 50 + (width - 75) * (utilization - 0.5) / 0.5

    def y(p95):
        return height - 30 - (height - 50) * (log10(p95) - log10(low)) / (log10(high) - log10(low) or 1)

    parts = [f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{html.escape(trace)}">',
             f'<text x="50" y="14" class="title">{html.escape(trace)}</text>']
    for share in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        parts.append(f'<line x1="{x(share):.1f}" x2="{x(share):.1f}" y1="20" y2="{height - 30}" class="grid"/>'
                     f'<text x="{x(share):.1f}" y="{height - 14}" class="axis">{100 * share:.0f} %</text>')
    for ms in (10, 20, 50, 100, 200, 500, 1000, 2000):
        if low <= ms <= high:
            parts.append(f'<line x1="50" x2="{width - 25}" y1="{y(ms):.1f}" y2="{y(ms):.1f}" class="grid"/>'
                         f'<text x="46" y="{y(ms) + 4:.1f}" class="axis left">{ms} ms</text>')
    line = [point for point in frontier(shown)]
    path = " ".join(f"{x(u):.1f},{y(p):.1f}" for u, p, _ in line)
    parts.append(f'<polyline points="{path}" class="frontier"/>')
    for cc, (utilization, p95) in shown.items():
        radius, colour = (6, "#d62728") if cc == OURS else (3, COLOURS.get(cc.split(":")[0], "#888"))
        parts.append(f'<circle cx="{x(utilization):.1f}" cy="{y(p95):.1f}" r="{radius}" fill="{colour}"><title>'
                     f'{html.escape(cc)}: {100 * utilization:.1f} %, {p95:.0f} ms</title></circle>')
    return "".join(parts) + "</svg>"


def page(found, alone_table):
    names = {cc.split(":")[0] for cells in found.values() for cc in cells if cc != OURS}
    legend = " ".join(f'<span style="color:{COLOURS.get(name, "#888")}">●</span> {name}' for name in sorted(names))
    rows = [row.strip("| ").split(" | ") for row in alone_table.strip().splitlines()]
    cells = "".join("<tr>" + "".join(f"<td>{html.escape(cell.replace('`', ''))}</td>" for cell in row) + "</tr>"
                    for row in [rows[0], *rows[2:]])
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Pace and the efficient frontier</title><style>
body {{ font: 15px system-ui, sans-serif; margin: 2em auto; max-width: 1000px; padding: 0 1em }}
.grid {{ stroke: #ddd }} .axis {{ font-size: 11px; text-anchor: middle; fill: #555 }} .left {{ text-anchor: end }}
.title {{ font-weight: 600; font-size: 13px }} .frontier {{ fill: none; stroke: #444; stroke-width: 1.5 }}
td {{ padding: .2em .8em .2em 0; border-bottom: 1px solid #ddd }} svg {{ max-width: 100% }}
</style><h1>Pace and the efficient frontier</h1><p>Each point is a controller with parameters, alone for {DURATION} over 40 ms and
2 MB: utilization, and the 95th percentile of the queue delay. The line is the efficient frontier of all but Pace.</p>
<p><span style="color:#d62728">●</span> pace {legend}</p>{"".join(picture(trace, cells) for trace, cells in found.items())}
<table>{cells}</table></html>"""


def main():
    if not TRACES:
        sys.exit("frontier: needs recorded traces: set CELLPACE_TRACES")
    if sys.argv[2:] == ["traces"]:
        print("\n".join(f"{TRACES}/{trace}" for trace in TEST))
        return
    training = "training" in sys.argv[2:]
    found = points(TRAINING if training else TEST)
    alone_table, answer = alone(found)
    out = ROOT / "out"
    out.mkdir(exist_ok=True)
    (out / "frontier.html").write_text(page(found, alone_table))
    (out / "frontier.json").write_text(json.dumps(found, indent=1))
    print(alone_table, answer, sep="\n")
    if training:
        return
    import regenerate
    regenerate.include({"frontier": alone_table, "frontier-bound": bound(), "answer-frontier": answer, "pace-conditions": conditions()})
    print(f"wrote {(out / 'frontier.html').relative_to(ROOT)}")


if __name__ == "__main__":
    main()
