#!/usr/bin/env python3
"""Regenerates the tables of docs/validation.md, and in README.md the table and the picture. They stand
between marks in the pages; the text around them is written by hand.

    python3 evaluation/regenerate.py path/to/cellpace [mdi]
    python3 evaluation/regenerate.py parity           # only what evaluation/parity.json says, which needs real time
    python3 evaluation/regenerate.py alcc             # only what evaluation/alcc.json says, likewise

With `mdi` only what is about MDI: its part of docs/validation.md and the pictures of docs/mdi.md.

Real traces come from the folder CELLPACE_TRACES (Mahimahi format, <name>.down), the figures of
the original programs from originals.json in CELLPACE_REFERENCE (default: the folder `reference`
beside the traces). Without them only README.md is regenerated. Every figure in what is written
comes from a run of the program; nothing is typed in.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import alcc_statistics
import mdi_evaluation
import program
from program import ROOT, TRACES, call, real, table, write

REFERENCE = os.environ.get("CELLPACE_REFERENCE") or (TRACES and str(Path(TRACES).parent / "reference"))

PROFILES = ["lte-driving", "lte-stationary", "umts-driving", "hspa-walking", "5g-midband"]
FITTED = {"lte-driving": "att-lte-driving", "umts-driving": "tmobile-umts-driving",
          "hspa-walking": "campus-walk"}
MEASURED = ["verizon-lte-short", "att-lte-driving", "tmobile-umts-driving", "city-drive",
            "highway-3g", "rapid-change"]
OTHERS = ["campus-walk", "beachfront-walk", "highway-drive"]
ALL_CCS = ["verus:r=2", "verus:r=4", "verus:r=6", "copa", "sprout", "bbr", "cubic", "newreno", "bic",
           "vegas", "ledbat"]
# The uplink of the measurements.
SET_UP = ["--uplink", "constant:12mbit", "--duration", "60s"]


def compare(traces, ccs, *options):
    """Runs of `compare`, by (trace, controller)."""
    document = program.compare(traces, ccs, *options)
    repeated = {(r["trace"], r["cc"]): r for r in document.get("repeated", [])}
    return {(r["trace"], r["cc"]): r for r in document["runs"]}, repeated


def figures(run):
    delay = run["queue_delay_ms"]
    return f"{run['utilization']:.2f} / {delay['p50']:.0f} / {delay['p95']:.0f}"


# README ------------------------------------------------------------------------------------

def readme():
    ccs = ALL_CCS + ["mdi"]
    _, means = compare(PROFILES, ccs, "--repeat", 5)

    def cell(profile, cc):
        mean = means[(profile, cc)]
        return f"{100 * mean['utilization']['mean']:.0f} % / {mean['queue_delay_p95_ms']['mean']:.0f} ms"

    rows = [[f"`{cc}`"] + [cell(profile, cc) for profile in PROFILES] for cc in ccs]
    block = table(["controller"] + PROFILES, rows)
    include(ROOT / "README.md", {"results": block})
    with tempfile.TemporaryDirectory() as folder:
        ccs = ["verus:r=2", "verus:r=6", "copa", "bbr", "cubic", "ledbat"]
        args = [word for cc in ccs for word in ("--cc", cc)]
        call("compare", "--trace", "lte-driving", "--duration", "60s", *args, "--svg", folder)
        for chart in ("scatter", "delay"):
            svg = (Path(folder) / f"lte-driving-{chart}.svg").read_text()
            write(ROOT / "docs" / "img" / f"lte-driving-{chart}.svg", svg)


# validation.md -----------------------------------------------------------------------------

def verdict(run, original):
    """What the comparison with an original is judged by."""
    more, ratio = beside(run, original)
    if more >= 0 and ratio <= 1:
        return "better"
    return "same" if alike(run, original) else "differs"


def alike(run, original):
    """Whether it is where the original is; better is not."""
    more, ratio = beside(run, original)
    return abs(more) <= 0.05 and abs(ratio - 1) <= 0.25


def beside(run, original):
    return (run["utilization"] - original["utilization"],
            run["queue_delay_ms"]["p95"] / original["delay_p95_ms"])


def originals():
    path = Path(REFERENCE or "") / "originals.json"
    rows = json.loads(path.read_text())
    return {(row["file"].removesuffix(".down"), row["cc"]): row for row in rows}


def against_originals():
    reference = originals()
    runs, _ = compare([real(t) for t in MEASURED], ALL_CCS, *SET_UP)
    rows, counts, differing = [], {"same": 0, "better": 0, "differs": 0}, []
    for cc in ALL_CCS:
        row = [f"`{cc}`"]
        for trace in MEASURED:
            run = runs[(f"{trace}.down", cc)]
            original = reference.get((trace, cc))
            if original is None:
                row.append(figures(run))
                continue
            judged = verdict(run, original)
            counts[judged] += 1
            if judged == "differs":
                differing.append((trace, cc))
            theirs = (f"{original['utilization']:.2f} / {original['delay_p50_ms']:.0f} / "
                      f"{original['delay_p95_ms']:.0f}")
            mark = {"same": "", "better": " ↑", "differs": " **≠**"}[judged]
            row.append(f"{figures(run)}{mark}<br>*{theirs}*")
        rows.append(row)
    text = table(["controller"] + MEASURED, rows)
    text += (f"\nOf {sum(counts.values())} cells with an original, {counts['same']} agree, "
             f"{counts['better']} are better on both figures (↑), {counts['differs']} differ (≠).\n")
    return text, differing, reference


# A form of the controller that is nearer to what was measured, and why it is.
EXPLANATIONS = {
    "copa": ("copa:code",
             "The original program doubles its velocity from the first RTT; the paper, and our "
             "default, only after three windows in one direction. With the original's choices the "
             "utilization comes down to the measured one."),
    "sprout": ("sprout:look_ahead=4",
               "Ours uses more of the link, at a higher delay, for two reasons that the table after "
               "this one takes apart. With a look-ahead of 80 ms in place of 100 it still uses more, "
               "at about the original's delay."),
    "bbr": ("bbr:linux",
            "Measured was the BBR of Linux 6.18. It compensates for aggregated acks since 2019, "
            "which adds to the window what acks have arrived in excess of the bandwidth "
            "estimate; on a cellular link every burst is such an excess. Ours is the version of "
            "2016. With that compensation, the pacing margin of 1 % and the quanta that Linux adds to "
            "the flight at which a phase ends, it behaves as measured; the outages of the UMTS trace "
            "leave the 95th percentile there to chance."),
    "cubic": ("cubic:hystart=train,max_window=1820pkts",
              "The figure is decided by how full the buffer is when the link stalls for ten "
              "seconds. Two things together bring it to the measured one: a sender limited by its "
              "socket buffer (4 MB hold about 1820 packets of 1448 bytes with their bookkeeping), "
              "and a slow start that HyStart's delay sign does not end early. Why the kernel's "
              "HyStart should not have seen that sign is open; the kernel also lost fewer packets "
              "than ours with these settings."),
}


def explanations(differing, reference):
    text = ""
    for cc in dict.fromkeys(cc for _, cc in differing):
        traces = [trace for trace, other in differing if other == cc]
        name = cc.split(":")[0]
        if name in EXPLANATIONS:
            variant, why = EXPLANATIONS[name]
            runs, _ = compare([real(t) for t in traces], [cc, variant], *SET_UP)
            rows = [[trace, figures(runs[(f"{trace}.down", cc)]),
                     figures(runs[(f"{trace}.down", variant)]),
                     f"{reference[(trace, cc)]['utilization']:.2f} / "
                     f"{reference[(trace, cc)]['delay_p50_ms']:.0f} / "
                     f"{reference[(trace, cc)]['delay_p95_ms']:.0f}"] for trace in traces]
            text += f"\n**{cc}.** {why}\n\n"
            text += table(["trace", f"`{cc}`", f"`{variant}`", "original"], rows)
            if name == "sprout":
                text += sprout_as_measured(traces, reference)
        else:
            text += f"\n**{cc}** on {', '.join(traces)}: {spread(cc, traces, reference)}\n"
    return text


# Sprout's loop in the measurement: the uplink, and the nominal RTT with and without what the
# machine may have added.
BOTH_WAYS_UPLINK = "constant:12mbit"
BOTH_WAYS_RTTS = ["40ms", "46ms"]


def both_ways(cc, rtt, traces):
    """Runs of the example that lets both ends send: (utilization, p50, p95, uplink's mean)."""
    done = subprocess.run(
        ["cargo", "run", "--release", "--quiet", "--package", "cellpace-sim", "--example",
         "sprout_both_ways", "--", cc, BOTH_WAYS_UPLINK, rtt, *map(real, traces)],
        capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(f"sprout_both_ways\n{done.stderr}")
    return [tuple(map(float, line.split()[1:])) for line in done.stdout.splitlines()]


def sprout_as_measured(traces, reference):
    """Our Sprout with the original's observation, in the original's loop, and both."""
    exact = "sprout:original"
    loops = {(cc, rtt): both_ways(cc, rtt, traces)
             for cc, rtt in [("sprout", "40ms")] + [(exact, rtt) for rtt in BOTH_WAYS_RTTS]}
    runs, _ = compare([real(t) for t in traces], ["sprout", exact], *SET_UP)
    agree = dict.fromkeys(BOTH_WAYS_RTTS, 0)
    rows = []
    for index, trace in enumerate(traces):
        original = reference[(trace, "sprout")]
        row = [trace] + [figures(runs[(f"{trace}.down", cc)]) for cc in ("sprout", exact)]
        for (cc, rtt), results in loops.items():
            utilization, p50, p95, _ = results[index]
            cell = f"{utilization:.2f} / {p50:.0f} / {p95:.0f}"
            if cc == exact:
                run = {"utilization": utilization, "queue_delay_ms": {"p95": p95}}
                near = alike(run, original)
                agree[rtt] += near
                cell += "" if near else " **≠**"
            row.append(cell)
        row.append(f"{original['utilization']:.2f} / {original['delay_p50_ms']:.0f} / "
                   f"{original['delay_p95_ms']:.0f}")
        rows.append(row)
    waits = [waited for *_, waited in loops[(exact, "40ms")]]
    text = (
        "\nSprout with the original's settings. The program that was measured sends in both "
        "directions and puts each forecast on a packet of data, and that data fills the uplink too: "
        f"a packet waits {min(waits):.0f} to {max(waits):.0f} ms in the uplink's queue, on average, and the "
        "forecast on it too. The program looks at its window at least every 10 ms, and fills it to the byte. "
        "`crates/sim/examples/sprout_both_ways` runs our two halves that way; the column *both ways* is "
        "our default so, *exact* the original's reading of arrivals (what the sender left out counts as "
        "the link's rate) in our loop. Neither makes the difference alone: a flow that takes what it left out for "
        "the rate sinks where forecasts come so late that it leaves something out. Together they come near: "
        f"of {len(traces)} traces {agree['40ms']} agree (0.05 of utilization, 25 % of p95) at the nominal "
        f"delay, and {agree['46ms']} with 3 ms more each way. These 3 ms are fitted; they stand for a "
        "measurement in which two programs and four emulated pieces of the path shared two cores and a "
        "clock of whole milliseconds. What is known of the program's loop also leaves open what wakes it "
        "and which headers it counts. Other readings move single cells by several hundredths in either "
        "direction, so take the two causes from this table, not the number that agree.\n\n")
    return text + table(["trace", "`sprout`", "`sprout`, exact", "both ways, 40 ms",
                         "both ways, exact, 40 ms", "both ways, exact, 46 ms", "original"], rows)


def spread(cc, traces, reference):
    """How much the figures depend on when the flow starts, as they do for the original."""
    parts = []
    for trace in traces:
        results = []
        for start in range(0, 1000, 50):
            scenario = (f'trace = "{real(trace)}"\nuplink = "constant:12mbit"\n'
                        f'duration = "60s"\n[[flow]]\ncc = "{cc}"\nstart = "{start}ms"\n')
            with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                file.write(scenario)
                file.flush()
                results.append(json.loads(call("sim", file.name, "--json", "-"))["runs"][0])
        low = min(results, key=lambda run: run["queue_delay_ms"]["p95"])
        high = max(results, key=lambda run: run["queue_delay_ms"]["p95"])
        utilizations = sorted(run["utilization"] for run in results)
        original = reference[(trace, cc)]
        parts.append(
            f"started at 20 moments of the trace's first second, utilization is "
            f"{utilizations[0]:.3f} to {utilizations[-1]:.3f} and p95 "
            f"{low['queue_delay_ms']['p95']:.0f} to {high['queue_delay_ms']['p95']:.0f} ms "
            f"(original, one start: {original['utilization']:.3f} and "
            f"{original['delay_p95_ms']:.0f} ms). What slow start and the first epochs meet "
            f"decides which profile is learnt, in the original as here.")
    return " ".join(parts)


def claims():
    names = [f"{t}.down" for t in MEASURED + OTHERS] + PROFILES
    runs, _ = compare([real(t) for t in MEASURED + OTHERS] + PROFILES,
                      ["verus:r=2", "verus:r=4", "verus:r=6", "cubic"], "--duration", "60s")
    rows, tenth, ordered = [], {2: 0, 4: 0, 6: 0}, 0
    for name in names:
        cubic = runs[(name, "cubic")]
        row = [name, f"{cubic['throughput_mbps']:.2f} / {cubic['queue_delay_ms']['mean']:.0f}"]
        verus = {r: runs[(name, f"verus:r={r}")] for r in (2, 4, 6)}
        for r, run in verus.items():
            share = run["throughput_mbps"] / cubic["throughput_mbps"]
            times = cubic["queue_delay_ms"]["mean"] / run["queue_delay_ms"]["mean"]
            tenth[r] += times >= 10
            row.append(f"{100 * share:.0f} %, {times:.1f}x lower")
        rises = lambda key: verus[2][key] <= verus[4][key] <= verus[6][key]
        delay = [verus[r]["queue_delay_ms"]["p50"] for r in (2, 4, 6)]
        in_order = delay == sorted(delay) and rises("throughput_mbps")
        ordered += in_order
        rows.append(row + ["yes" if in_order else "no"])
    text = table(["trace", "Cubic: Mbit/s / mean queue delay, ms", "Verus R=2", "Verus R=4",
                  "Verus R=6", "R orders delay and throughput"], rows)
    text += (f"\nAn order of magnitude below Cubic's mean delay: R=2 on {tenth[2]}, R=4 on "
             f"{tenth[4]}, R=6 on {tenth[6]} of {len(names)} traces. R=2, 4, 6 trade delay for "
             f"throughput in order on {ordered} of {len(names)}.\n")
    return text


def profiles():
    text = ""
    for profile, source in FITTED.items():
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            call("trace", "fit", real(source), "-o", folder / "p.profile", "--seeds", 10,
                 "--json", folder / "fit.json")
            rows = [[row["figure"], number(row["source"]), number(row["generated"]),
                     change(row["source"], row["generated"])]
                    for row in json.loads((folder / "fit.json").read_text())["comparison"]]
            seconds = json.loads((folder / "fit.json").read_text())["comparison"][0]["source"]
            text += f"\n### {profile}, fitted to {source}\n\n"
            text += table(["figure", "source", "generated, mean of 10 seeds", "change"], rows)
            text += "\n" + controllers_on(profile, source, seconds, folder)
    return text


def controllers_on(profile, source, seconds, folder):
    ccs = ["verus:r=2", "verus:r=6", "copa", "cubic"]
    made = []
    for seed in range(1, 11):
        path = folder / f"{profile}-{seed}.down"
        call("trace", "make", profile, "-o", path, "--duration", f"{seconds:.0f}s", "--seed", seed)
        made.append(path)
    duration = ["--duration", f"{seconds:.0f}s"]
    on_source, _ = compare([real(source)], ccs, *duration)
    on_made, _ = compare(made, ccs, *duration)
    rows = []
    for cc in ccs:
        run = on_source[(f"{source}.down", cc)]
        others = [on_made[(path.name, cc)] for path in made]
        mean = lambda key: sum(key(other) for other in others) / len(others)
        row = [f"`{cc}`"]
        for key, form in ((lambda r: r["utilization"], "{:.3f}"),
                          (lambda r: r["queue_delay_ms"]["mean"], "{:.1f}"),
                          (lambda r: r["queue_delay_ms"]["p95"], "{:.0f}")):
            ours, theirs = mean(key), key(run)
            off = 100 * (ours / theirs - 1)
            flag = "" if abs(off) <= 15 else " **>15 %**"
            row.append(f"{form.format(theirs)} → {form.format(ours)} ({off:+.0f} %){flag}")
        rows.append(row)
    return table(["controller, source → generated", "utilization", "mean queue delay, ms",
                  "p95 queue delay, ms"], rows)


def number(value):
    return "–" if value is None else f"{value:.4g}"


def change(source, generated):
    return f"{100 * (generated / source - 1):+.1f} %" if source and generated else "–"


PAGE = ROOT / "docs" / "validation.md"


def include(page, found):
    """Puts tables between their marks in a page, and leaves what is written around them."""
    text = page.read_text()
    for mark, block in found.items():
        begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.S)
        text, count = pattern.subn(lambda _: begin + block.strip("\n") + "\n" + end, text)
        if count != 1:
            sys.exit(f"{page} has the mark {mark} {count} times")
    write(page, text)


def validation():
    cells, differing, reference = against_originals()
    why = explanations(differing, reference)
    found = {"originals": cells, "explanations": why, "claims": claims(), "profiles": profiles(),
             **mdi_evaluation.sections()}
    include(PAGE, found)


# Parity of simulator and real packets ------------------------------------------------------

def parity():
    document = json.loads((ROOT / "evaluation" / "parity.json").read_text())
    rows = document["rows"]
    traces = list(dict.fromkeys(row["trace"] for row in rows))
    ccs = list(dict.fromkeys(row["cc"] for row in rows))
    cells = {(row["trace"], row["cc"]): row for row in rows}
    mark = {"same": "", "within": " ~", "differs": " **≠**"}

    def cell(row):
        real, sim = (f"{row[side]['throughput_mbps']:.2f} / {row[side]['p50_ms']:.0f} / {row[side]['p95_ms']:.0f}"
                     for side in ("real", "sim"))
        return f"{real}{mark[row['verdict']]}<br>*{sim}*"

    def count(verdict):
        return sum(row["verdict"] == verdict for row in rows)

    text = table(["controller"] + [trace.removesuffix(".down") for trace in traces],
                 [[f"`{cc}`"] + [cell(cells[(trace, cc)]) for trace in traces] for cc in ccs])
    # What one compares the tilde with: how far the simulator alone moves.
    moved = [row for row in rows if row["verdict"] == "within"]
    if moved:
        text += "\nThe cells with ~ beside what the simulator does with the flow up to "
        text += f"{max(document['shifts_ms']):.0f} ms earlier or later and the RTT one of "
        text += ", ".join(f"`{rtt}`" for rtt in document["rtts"]) + ":\n\n"
        span = lambda row, key, form: " to ".join(form.format(end) for end in row["sim_range"][key])
        text += table(
            ["controller", "trace", "real", "throughput, Mbit/s", "median, ms", "p95, ms"],
            [[f"`{row['cc']}`", row["trace"].removesuffix(".down"), cell(row).split(" ~")[0],
              span(row, "throughput_mbps", "{:.2f}"), span(row, "p50_ms", "{:.0f}"),
              span(row, "p95_ms", "{:.0f}")] for row in moved])
    late = sorted(row["late_us"]["p99"] for row in rows)
    text += (f"\nOf {len(rows)} cells, {count('same')} are within the tolerances, {count('within')} "
             f"within them of the simulator with such a small change (~), {count('differs')} differ (≠). "
             f"The links' timers were late by {late[len(late) // 2]:.0f} µs at the 99th percentile "
             f"in the median run, by {late[-1]:.0f} µs in the worst.\n")
    return text


# The controllers above TCP -------------------------------------------------------------------

def tunnels(runs):
    text = ("\n### In a TCP tunnel (section 5.9)\n\nTwo flows in one TCP connection through 40 Mbit/s, a minute; "
            "Mbit/s in thirds of it, and Jain's index of each second's shares, the mean over the seconds in which "
            "both sent.\n\n")
    rows = []
    for name, run in runs.items():
        first, second = ([8 * count / 1e6 for count in run[which]] for which in ("first", "second"))
        third = len(first) // 3
        thirds = lambda flow: " / ".join(f"{sum(flow[i * third:(i + 1) * third]) / third:.1f}" for i in range(3))
        jain = [(a + b) ** 2 / (2 * (a * a + b * b)) for a, b in zip(first, second) if b > 0.5]
        rows.append([name.split("/")[0], name.split("/")[1], thirds(first), thirds(second), f"{sum(jain) / len(jain):.2f}"])
    return text + table(["Copa", "beside", "Copa's Mbit/s", "the other's", "Jain's index"], rows)


FIGURES = {"throughput": "throughput", "p50": "median", "p95": "p95"}
# How near to native is near enough, of each figure.
GATE_BOUNDS, KERNEL_BOUNDS = (0.03, 0.1, 0.2), (0.02, 0.05, 0.2)


def against_native(cells, simulated, mean, shown):
    def length(how):
        found = [cell for name, cell in cells.items() if name.startswith(f"{how}/")]
        if not found:
            return "not measured"
        runs, seconds = max(cell["runs"] for cell in found), max(cell.get("seconds", 60) for cell in found)
        return f"{runs} run{'s' if runs > 1 else ''} of {seconds} s"

    names = [name.split("/", 1)[1] for name in cells if name.startswith("native/")]
    names.sort(key=lambda name: not name.endswith("/verus:r=2"))
    beside = lambda *arguments: beside_native(cells, names, *arguments)
    kernel = (KERNEL_BOUNDS, "2 %, 5 % and 20 %", shown)
    text = "\n### Above TCP against native\n\n"
    text += (f"Mbit/s / median / p95 of the queue delay in ms, means of runs (native: {length('native')}). Each run of a cell is over "
             "another minute of the trace and at another base RTT from 40 to 40.9 ms, the same for all that is compared. *Ratio*: a mean as a share of native's, with its "
             "95 % confidence interval (Fieller's, of pairs of runs over the same minute); bold where the interval, before it is "
             "rounded, leaves out 1. *Overlap*: of the distributions of the packets' queue delays (the sum, over bins, of the "
             "lesser share; bins of 1 ms up to 100 ms, 20 to a decade beyond); in brackets that of native with native again, which "
             "is what chance leaves of 1.\n\n")
    text += f"**Native again**, at the same time as all others, {length('again')}: what chance does to such a comparison.\n\n"
    text += beside("again", "native again", *kernel)
    text += (f"\n**The gate** is what `cellpace run` does without the kernel driver, above the kernel's Cubic: Reno until the "
             f"first loss, Cubic from then on; {length('gate')}.\n\n")
    text += beside("gate", "the gate", GATE_BOUNDS, "3 % of native's throughput, 10 % of its median and 20 % of its p95", shown)
    text += f"\n**The kernel driver**, {length('kernel')}. The receiver acknowledges every second packet, as TCP's do.\n\n"
    text += beside("kernel", "the kernel driver", *kernel)
    text += (f"\nThe same beside native whose receiver delays acks, too (`cellpace recv --acks delayed:40ms`), {length('delayed')}:"
             "\n\n")
    text += beside("kernel", "the kernel driver", *kernel, "delayed")
    text += (f"\nThe kernel driver with prompt acks (`cellpace kernel install --prompt-acks`), {length('kernel_prompt')}, beside "
             "native:\n\n")
    text += beside("kernel_prompt", "the kernel driver with prompt acks", *kernel)
    text += (f"\nThe kernel driver with a receiver that acknowledges each packet (`quickack 1` on its route), "
             f"{length('quickack')}, beside native, whose receiver does so always:\n\n")
    text += beside("quickack", "the kernel driver, each packet acknowledged", *kernel)
    text += (f"\n**Others**, {length('cubic')} a cell, in brackets as a share of native's over the same minutes: Cubic, Reno and "
             "BBR alone below the gate (`--below`). *Simulated*: the controller in virtual time, where nothing is ever late, over "
             "the same minutes; the last column is what delayed acks alone do there, as a share of that.\n\n")
    return text + other_ways(cells, names, simulated, mean, shown)


def beside_native(cells, names, how, called, bounds, told_bounds, shown, beside="native"):
    """A table of one way to run above TCP beside native, and what it comes to."""
    rows, overlaps = [], {}
    near, wholly, apart = ({key: 0 for key in FIGURES} for _ in range(3))
    one_way = 0
    for name in names:
        cell, own = cells.get(f"{how}/{name}"), cells.get(f"{beside}/{name}")
        if cell is None or own is None:
            continue
        trace, cc = name.split("/")
        row = [f"`{cc}`", trace, shown(own), shown(cell)]
        for key, most in zip(FIGURES, bounds):
            found, others = of_the_same_minutes(cell, own, key)
            ratio = sum(found) / sum(others)
            interval = alcc_statistics.ratio_interval(found, others)
            near[key] += abs(ratio - 1) <= most
            if key == "p50":
                # The one-way delay has half of the base RTT, too.
                added = sum(rtt for minute, rtt in zip(cell["minutes"], cell["rtts_ms"]) if minute in own["minutes"]) / 2
                one_way += abs((sum(found) + added) / (sum(others) + added) - 1) <= most
            # Shares of throughput are closer to 1, so they have a digit more.
            digits = 3 if key == "throughput" else 2
            if interval is None:
                row.append(f"{ratio:.{digits}f} (–)")
                continue
            low, high = interval
            wholly[key] += 1 - most <= low and high <= 1 + most
            differs = not low <= 1 <= high
            apart[key] += differs
            mark = "**" if differs else ""
            row.append(f"{mark}{ratio:.{digits}f} ({low:.{digits}f} to {high:.{digits}f}){mark}")
        row.append(overlap_with(cell, own, cells.get(f"again/{name}") if beside == "native" else None, overlaps, name))
        rows.append(row)
    if not rows:
        return "Not measured.\n"
    header = ["controller", "trace", "native", called.removeprefix("the "), "ratio: throughput", "median", "p95", "overlap"]
    count = lambda of: ", ".join(f"{name} in {of[key]}" for key, name in FIGURES.items())
    text = table(header, rows)
    text += (f"\nOf {len(rows)} cells with {called}, so many are within {told_bounds}: {count(near)}; with the whole interval: "
             f"{count(wholly)}. The median of the one-way delay, which is the queue's and half of the base RTT, is in {one_way}. The interval "
             f"leaves out 1: {count(apart)} (by chance it would in {0.05 * len(rows):.1f} of {len(rows)}).")
    return text + told_overlaps(overlaps) + "\n"


def of_the_same_minutes(cell, own, key):
    """The runs of two cells over the same minutes of the trace, side by side."""
    ours, theirs = (dict(zip(one["minutes"], one[key]["runs"])) for one in (cell, own))
    shared = [minute for minute in ours if minute in theirs]
    return [ours[minute] for minute in shared], [theirs[minute] for minute in shared]


def overlap_with(cell, own, again, overlaps, name):
    """The table's text; the figures are added to `overlaps`."""
    shared = alcc_statistics.overlap(cell["delays"], own["delays"])
    if again is None or again is cell:
        return f"{shared:.2f}"
    chance = alcc_statistics.overlap(again["delays"], own["delays"])
    overlaps[name] = shared, chance
    return f"{shared:.2f} ({chance:.2f})"


def told_overlaps(overlaps):
    if not overlaps:
        return ""
    shared, chance = (sum(pair) / len(overlaps) for pair in zip(*overlaps.values()))
    least = min(overlaps, key=lambda name: overlaps[name][0])
    trace, cc = least.split("/")
    alike = sum(one >= 0.95 * own for one, own in overlaps.values())
    return (f" The delays overlap native's by {shared:.2f} in the mean, {overlaps[least][0]:.2f} at the least (`{cc}` on {trace}), "
            f"and native's with native again by {chance:.2f}; in {alike} of {len(overlaps)} cells the overlap is at most 5 % "
            "less than that.")


def other_ways(cells, names, simulated, mean, shown):
    def beside(cell, own):
        pairs = (of_the_same_minutes(cell, own, key) for key in FIGURES)
        return " / ".join(f"{sum(found) / sum(others):.2f}" for found, others in pairs)

    rows = []
    for name in names:
        trace, cc = name.split("/")
        own = cells[f"native/{name}"]
        every, delayed = (simulated[f"{acks}/{name}"] for acks in ("every", "delayed:40ms"))
        others = [cells.get(f"{below}/{name}") for below in ("cubic", "reno", "bbr")] + [every]
        rows.append([f"`{cc}`", trace, shown(own),
                     *(f"{shown(cell)}<br>({beside(cell, own)})" if cell else "–" for cell in others),
                     beside(delayed, every)])
    return table(["controller", "trace", "native", "above Cubic alone", "above Reno", "above BBR", "simulated",
                  "simulated: delayed acks"], rows)


def shown_with(cell, mean):
    """Throughput / median / p95; short delays to a tenth of a millisecond."""
    median, p95 = mean(cell, "p50"), mean(cell, "p95")
    return f"{mean(cell, 'throughput'):.2f} / {median:.{1 if median < 10 else 0}f} / {p95:.0f}"


def lossy(runs, mean):
    most = max(cell["runs"] for cell in runs.values())
    count = f"{most} runs" if most > 1 else "one run"
    text = (f"\n### Random loss (section 5.8, figure 20)\n\nBase RTT 40 ms, 2 MB drop-tail, 30 s, {count} a cell: Mbit/s / "
            "median / p95 of the queue delay in ms; in brackets the throughput as a share of native's.\n\n")
    shown = lambda cell: shown_with(cell, mean)
    rows = []
    for path, percent in dict.fromkeys(tuple(name.split("/")[:2]) for name in runs):
        where = f"{path}/{percent}"
        label = path.removeprefix("--rate ").removesuffix(".down")
        row = [label, f"{percent} %"]
        row += [shown(runs[f"{where}/{below}"]) for below in ("cubic", "bbr")]
        for cc in ("verus:r=2", "copa"):
            own = runs[f"{where}/{cc}/native"]
            row.append(shown(own))
            for how in ("gate", "kernel"):
                cell = runs[f"{where}/{cc}/{how}"]
                row.append(f"{shown(cell)}<br>({mean(cell, 'throughput') / mean(own, 'throughput'):.2f})")
        rows.append(row)
    return text + table(["link", "loss", "Cubic", "BBR", "Verus: native", "gate", "kernel driver", "Copa: native", "gate",
                         "kernel driver"], rows)


def above_tcp():
    document = json.loads((ROOT / "evaluation" / "alcc.json").read_text())
    cells = document["cells"]
    mean = lambda cell, key: cell[key]["mean"]
    shown = lambda cell: shown_with(cell, mean)

    text = "### Windows that do not react, above kernel Cubic (figures 1 and 2 of the ALCC paper)\n\n"
    text += "12 Mbit/s, base RTT 40 ms, 30 s. Mbit/s, queue delay in ms.\n\n"
    rows = [[f"`{name.split('/')[1]}`", f"{mean(cell, 'throughput'):.2f}", f"{mean(cell, 'p50'):.1f}",
             f"{mean(cell, 'p95'):.1f}"]
            + ([f"{cell['cwnd_kb']:.0f}", f"{cell['tcp_cwnd_kb']:.0f}"] if "cwnd_kb" in cell else ["–", "–"])
            for name, cell in cells.items() if name.startswith("windows/")]
    text += table(["window", "throughput", "median", "p95", "window at the end, kB", "TCP's own, kB"], rows)

    text += "\n### nginx and curl, unmodified, on city-drive\n\n"
    web = document["web"]
    base = web["nginx/plain"]
    rows = [[f"`{name.split('/')[1]}`", shown(cell),
             f"{mean(cell, 'throughput') / mean(base, 'throughput'):.3f}",
             f"{mean(base, 'p95') / mean(cell, 'p95'):.1f}"]
            for name, cell in web.items()]
    text += table(["controller", "Mbit/s / median / p95", "throughput of plain's", "p95 below plain's, times"], rows)

    text += against_native(cells, document["simulated"], mean, shown)

    own, ours = document["sprout"]["sprout/native"], document["sprout"]["sprout/client-server"]
    text += (f"\nSprout on rapid-change, whose receiver must answer: native {shown(own)}, above TCP with acks inside the "
             f"stream (`--driver client-server` at both ends) {shown(ours)}.\n")

    text += lossy(document["loss"], mean)
    text += tunnels(document["tunnels"])

    text += "\n### Cost\n\n"
    rows, runs = [], []
    for rate in ("100mbit", "10mbit"):
        plain = [document["cost"][f"{rate}/plain{again}"] for again in ("", " again")]
        base = {key: sum(cell[key] for cell in plain) / 2 for key in ("cpu_per_gb", "own_per_gb")}
        for name, cell in document["cost"].items():
            if name.startswith(rate):
                runs.append(f"{cell['runs']} at {rate}")
                rows.append([rate, f"`{name.split('/')[1]}`", f"{cell['throughput']:.1f}", f"{cell['cpu_per_gb']:.2f}",
                             f"{cell['cpu_per_gb'] - base['cpu_per_gb']:+.2f}", f"{100 * cell['core']:.2f} %",
                             f"{cell['own_per_gb']:.2f} ({cell['own_per_gb'] / base['own_per_gb']:.2f})"])
    text += ("CPU seconds, user and system, of nginx (with sendfile) and `cellpace run` together, and of nginx alone; runs one "
             f"after the other, plain nginx first and last ({', '.join(dict.fromkeys(runs))}). *Above plain* and the share in "
             "brackets are of the mean of the two plain ones. What TCP does when acks come is in none of these figures: the "
             "kernel counts it for whoever it interrupts.\n\n")
    text += table(["link", "controller", "Mbit/s", "s per GB", "above plain", "of a core", "nginx alone, s per GB"], rows)
    text += "\nOver loopback, one flow, Gbit/s: " + ", ".join(
        f"{name} {value:.1f}" for name, value in document["loopback"].items()) + ".\n"
    return text


def main():
    only_mdi = sys.argv[2:] == ["mdi"]
    mdi_evaluation.pictures()
    if not only_mdi:
        readme()
    if not TRACES:
        print("no real traces: docs/validation.md stays as it is")
    elif only_mdi:
        include(PAGE, mdi_evaluation.sections())
    elif REFERENCE and (Path(REFERENCE) / "originals.json").is_file():
        validation()
    else:
        print("no reference figures: docs/validation.md stays as it is")


if __name__ == "__main__":
    if sys.argv[1:] == ["parity"]:
        include(PAGE, {"parity": parity()})
    elif sys.argv[1:] == ["alcc"]:
        include(PAGE, {"alcc": above_tcp()})
    else:
        main()
