"""The tables of docs/validation/simulator.md, of what `./dev docs parity` has measured (evaluation/parity.json)."""
import json

from program import ROOT, table


def tables():
    document = json.loads((ROOT / "evaluation" / "parity.json").read_text())
    rows = document["rows"]
    cells = {cc: [row for row in rows if row["cc"] == cc] for cc in dict.fromkeys(row["cc"] for row in rows)}
    whole = [f"`{cc}`" for cc, of in cells.items() if all(row["verdict"] == "same" for row in of)]
    text = table(["controller", "cells within", "furthest throughput, Mbit/s: real for simulated", "median, ms", "p95, ms"],
                 [by_controller(cc, of) for cc, of in cells.items() if f"`{cc}`" not in whole])
    text += f"\nIn all six: {', '.join(whole)}.\n"
    count = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in ("same", "within", "differs")}
    late = sorted(row["late_us"]["p99"] for row in rows)
    text += (f"\nOf {len(rows)} cells, {count['same']} are within the tolerances, {count['within']} within them of what the "
             f"simulator does after a small change, {count['differs']} differ. The links' timers were late by "
             f"{late[len(late) // 2]:.0f} µs at the 99th percentile in the median run, by {late[-1]:.0f} µs in the worst.\n")
    return {"parity": text, "answer-parity":
            f"{count['same']} of {len(rows)} cells are the same, {count['within']} after a change of 10 ms or less, {count['differs']} differ"}


def by_controller(cc, rows):
    def furthest(figure, form):
        real, sim = max(((row["real"][figure], row["sim"][figure]) for row in rows),
                        key=lambda pair: abs(pair[0] / pair[1] - 1))
        return f"{form.format(real)} for {form.format(sim)}"

    same = sum(row["verdict"] == "same" for row in rows)
    return [f"`{cc}`", f"{same} of {len(rows)}", furthest("throughput_mbps", "{:.2f}"),
            furthest("p50_ms", "{:.0f}"), furthest("p95_ms", "{:.0f}")]


def within():
    """How far the simulator alone moves, in the cells that are the same only after a small change: for the book."""
    document = json.loads((ROOT / "evaluation" / "parity.json").read_text())
    span = lambda row, key, form: " to ".join(form.format(end) for end in row["sim_range"][key])
    rows = [[f"`{row['cc']}`", row["trace"].removesuffix(".down"),
             f"{row['real']['throughput_mbps']:.2f} / {row['real']['p50_ms']:.0f} / {row['real']['p95_ms']:.0f}",
             span(row, "throughput_mbps", "{:.2f}"), span(row, "p50_ms", "{:.0f}"), span(row, "p95_ms", "{:.0f}")]
            for row in document["rows"] if row["verdict"] == "within"]
    return table(["controller", "trace", "real: Mbit/s / median / p95", "simulated: Mbit/s", "median, ms", "p95, ms"], rows)
