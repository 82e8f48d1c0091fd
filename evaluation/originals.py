"""The tables of docs/validation/originals.md: controllers beside the original programs, and the Verus paper's claim."""
import json
import os
from pathlib import Path

from program import TRACES, by_cell, real, simulate, table

REFERENCE = Path(os.environ.get("CELLPACE_REFERENCE") or Path(TRACES or "").parent / "reference") / "originals.json"

MEASURED = ["verizon-lte-short", "att-lte-driving", "tmobile-umts-driving", "city-drive", "highway-3g", "rapid-change"]
OTHERS = ["campus-walk", "beachfront-walk", "highway-drive"]
PROFILES = ["lte-driving", "lte-stationary", "umts-driving", "hspa-walking", "5g-midband"]
CONTROLLERS = ["verus:r=2", "verus:r=6", "copa", "sprout", "bbr", "cubic", "newreno"]
# A form of the controller that is nearer to what was measured.
NEARER = {"copa": "copa:code", "bbr": "bbr:linux", "cubic": "cubic:hystart=train,max_window=1820pkts"}
# The uplink of the measurements.
SET_UP = ["--uplink", "constant:12mbit", "--duration", "60s"]


def tables():
    reference = {(row["file"].removesuffix(".down"), row["cc"]): row for row in json.loads(REFERENCE.read_text())}
    text, differing, answer = against_originals(reference)
    claim, claim_answer = claims()
    return {"originals": text, "nearer": nearer(differing, reference), "sprout-original": sprout(reference),
            "starts": starts([trace for trace, cc in differing if cc == CONTROLLERS[0]], reference),
            "claims": claim, "answer-originals": answer, "answer-claim": claim_answer}


def figures(run):
    return f"{run['utilization']:.2f} / {run['queue_delay_ms']['p95']:.0f}"


def original_figures(original):
    return f"{original['utilization']:.2f} / {original['delay_p95_ms']:.0f}"


def verdict(run, original):
    """What the comparison with an original is judged by."""
    more = run["utilization"] - original["utilization"]
    ratio = run["queue_delay_ms"]["p95"] / original["delay_p95_ms"]
    if more >= 0 and ratio <= 1:
        return "better"
    return "same" if abs(more) <= 0.05 and abs(ratio - 1) <= 0.25 else "differs"


def against_originals(reference):
    runs = by_cell([real(trace) for trace in MEASURED], CONTROLLERS, *SET_UP)
    rows, counts, differing = [], {"same": 0, "better": 0, "differs": 0}, []
    mark = {"same": "", "better": " ↑", "differs": " **≠**"}
    for cc in CONTROLLERS:
        row = [f"`{cc}`"]
        for trace in MEASURED:
            run, original = runs[(f"{trace}.down", cc)], reference[(trace, cc)]
            judged = verdict(run, original)
            counts[judged] += 1
            if judged == "differs":
                differing.append((trace, cc))
            row.append(f"{figures(run)}{mark[judged]}<br>*{original_figures(original)}*")
        rows.append(row)
    total = sum(counts.values())
    text = table(["controller"] + MEASURED, rows)
    text += (f"\nOf {total} cells, {counts['same']} agree, {counts['better']} are better on both figures (↑), "
             f"{counts['differs']} differ (≠).\n")
    return text, differing, f"{counts['same'] + counts['better']} of {total} cells agree or are better"


def nearer(differing, reference):
    """The form that is nearer in the cells that differ."""
    rows = []
    for trace, cc in differing:
        if cc not in NEARER:
            continue
        runs = by_cell([real(trace)], [NEARER[cc]], *SET_UP)
        rows.append([trace, f"`{NEARER[cc]}`: {figures(runs[(f'{trace}.down', NEARER[cc])])}", original_figures(reference[(trace, cc)])])
    return table(["trace", "nearer", "original"], rows)


def starts(traces, reference):
    """How much Verus' figures depend on when the flow starts."""
    rows, cc = [], CONTROLLERS[0]
    for trace in traces:
        runs = [started(trace, cc, start) for start in range(0, 1000, 50)]
        row = [trace]
        for figure, form in ((lambda run: run["utilization"], "{:.2f}"), (lambda run: run["queue_delay_ms"]["p95"], "{:.0f}")):
            values = sorted(map(figure, runs))
            row.append(f"{form.format(values[0])} to {form.format(values[-1])}")
        rows.append(row + [original_figures(reference[(trace, cc)])])
    return table([f"`{cc}`, started at 20 moments of the first second", "utilization", "p95, ms", "original"], rows)


def started(trace, cc, start_ms):
    scenario = (f'trace = "{real(trace)}"\nuplink = "constant:12mbit"\nduration = "60s"\n'
                f'[[flow]]\ncc = "{cc}"\nstart = "{start_ms}ms"\n')
    return simulate(scenario)


# Sprout, in the loop in which it was measured ---------------------------------------------------

def both_ways(trace, cc, rtt):
    """A run in which both ends send, and forecasts travel on data."""
    return simulate(f'trace = "{real(trace)}"\nuplink = "constant:12mbit"\nrtt = "{rtt}"\nduration = "60s"\n'
                    f'[[flow]]\ncc = "{cc}"\nreverse = "{cc}"\nstart = "100ms"\n')


def sprout(reference):
    """Our Sprout with the original's observation in the original's loop, and the original."""
    rows = [[trace, figures(both_ways(trace, "sprout:original", "40ms")), original_figures(reference[(trace, "sprout")])]
            for trace in MEASURED]
    return table(["trace", "`sprout:original`, both ways", "original program"], rows)


# The claim --------------------------------------------------------------------------------------

def claims():
    names = [f"{trace}.down" for trace in MEASURED + OTHERS] + PROFILES
    values = {r: f"verus:r={r}" for r in (2, 4, 6)}
    runs = by_cell([real(trace) for trace in MEASURED + OTHERS] + PROFILES, [*values.values(), "cubic"], "--duration", "60s")
    rows, tenth = [], dict.fromkeys(values, 0)
    for name in names:
        cubic = runs[(name, "cubic")]
        row = [name.removesuffix(".down"), f"{cubic['throughput_mbps']:.2f}", f"{cubic['queue_delay_ms']['mean']:.0f}"]
        for r, cc in values.items():
            share = runs[(name, cc)]["throughput_mbps"] / cubic["throughput_mbps"]
            times = cubic["queue_delay_ms"]["mean"] / runs[(name, cc)]["queue_delay_ms"]["mean"]
            tenth[r] += times >= 10
            row.append(f"{100 * share:.0f}, {times:.0f}×")
        rows.append(row)
    text = table(["trace", "Cubic, Mbit/s", "mean queue delay, ms", "Verus R=2, %, times", "R=4", "R=6"], rows)
    text += (f"\nAn order of magnitude below Cubic's mean delay: R=2 on {tenth[2]}, R=4 on {tenth[4]}, R=6 on {tenth[6]} "
             f"of {len(names)} traces.\n")
    return text, f"With R=2 a tenth of Cubic's mean queue delay on {tenth[2]} of {len(names)} traces"
