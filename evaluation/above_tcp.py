"""The tables about controllers above TCP, of what alcc_evaluation.py has measured (evaluation/alcc.json)."""
import json
from statistics import fmean

import alcc_statistics
from program import ROOT, jain, table

FIGURES = {"throughput": "throughput", "p50": "median", "p95": "p95"}
# How near to native is near enough.
BOUNDS = {"throughput": 0.02, "p50": 0.05, "p95": 0.2}
TEACHER = "verus:r=2"
# What is compared with which native runs.
WAYS = {
    "again": ("native again (chance)", "native"),
    "gate": ("gate: `run` without the kernel driver", "native"),
    "cubic": ("gate above Cubic alone", "native"),
    "reno": ("gate above Reno alone", "native"),
    "bbr": ("gate above BBR", "native"),
    "kernel": ("kernel driver", "native"),
    "kernel/delayed": ("kernel driver, native with delayed acks, too", "delayed"),
    "kernel_prompt": ("kernel driver with prompt acks", "native"),
    "quickack": ("kernel driver, every packet acknowledged", "native"),
}


# In the page; the book has all.
SHOWN_LOSSES = ["0", "1"]


def tables():
    document = json.loads((ROOT / "evaluation" / "alcc.json").read_text())
    cells = document["cells"]
    return {
        "web": web(document["web"]), "against-native": against_native(cells),
        "loss-above-tcp": lossy(document["loss"], SHOWN_LOSSES),
        "loopback": loopback(document["loopback"]),
        "sprout-above-tcp": sprout(document["sprout"]), **answers(document),
    }


def full_tables():
    """What the page leaves out, for the book."""
    document = json.loads((ROOT / "evaluation" / "alcc.json").read_text())
    return {"Fixed windows (figures 1 and 2 of the ALCC paper; 12 Mbit/s, above Cubic)": windows(document["cells"]),
            "Copa and another flow in one TCP connection through 40 Mbit/s": tunnels(document["tunnels"]),
            "Random loss above TCP, Mbit/s": lossy(document["loss"])}


def answers(document):
    """The figures of the first page."""
    web_cells = document["web"]
    base, verus = web_cells["nginx/plain"], web_cells[f"nginx/{TEACHER}"]
    gate = ratios(document["cells"], "gate", "native")
    lossy = lambda way: f"{mean(document['loss'][f'--trace constant:12mbit/1/{way}'], 'throughput'):.1f}"
    return {
        "answer-nginx": f"{mean(base, 'p95') / mean(verus, 'p95'):.0f} times less delay at the 95th percentile, "
                        f"{100 * mean(verus, 'throughput') / mean(base, 'throughput'):.0f} % of the throughput",
        "answer-native": f"{within(gate, 'throughput')} of {len(gate)} cells within 2 % of native's throughput",
        "answer-loss": f"Cubic {lossy('cubic')} Mbit/s, Verus {lossy(f'{TEACHER}/kernel')} with the kernel driver, "
                       f"{lossy(f'{TEACHER}/gate')} without",
    }


def mean(cell, key):
    return cell[key]["mean"]


def shown(cell):
    """Throughput / median / p95; short delays to a tenth of a millisecond."""
    median, p95 = mean(cell, "p50"), mean(cell, "p95")
    return f"{mean(cell, 'throughput'):.2f} / {median:.{1 if median < 10 else 0}f} / {p95:.0f}"


def web(cells):
    base = cells["nginx/plain"]
    rows = [[f"`{name.split('/')[1]}`", shown(cell), f"{100 * mean(cell, 'throughput') / mean(base, 'throughput'):.0f} %",
             f"{mean(base, 'p95') / mean(cell, 'p95'):.1f}"] for name, cell in cells.items()]
    return table(["controller", "Mbit/s / median / p95, ms", "of plain's throughput", "p95 below plain's, times"], rows)


def windows(cells):
    rows = [[f"`{name.split('/')[1]}`", f"{mean(cell, 'throughput'):.2f}", f"{mean(cell, 'p50'):.1f}", f"{mean(cell, 'p95'):.1f}"]
            for name, cell in cells.items() if name.startswith("windows/")]
    return table(["window", "Mbit/s", "median, ms", "p95, ms"], rows)


# Beside native ----------------------------------------------------------------------------------

def names(cells):
    found = [name.split("/", 1)[1] for name in cells if name.startswith("native/")]
    return sorted(found, key=lambda name: not name.endswith(f"/{TEACHER}"))


def of_the_same_minutes(cell, own, key):
    """The runs of two cells over the same minutes of the trace, side by side."""
    ours, theirs = (dict(zip(one["minutes"], one[key]["runs"])) for one in (cell, own))
    shared = [minute for minute in ours if minute in theirs]
    return [ours[minute] for minute in shared], [theirs[minute] for minute in shared]


def ratios(cells, how, beside):
    """For each cell and figure the mean's share of native's."""
    found = {}
    for name in names(cells):
        cell, own = cells.get(f"{how.split('/')[0]}/{name}"), cells.get(f"{beside}/{name}")
        if cell is None or own is None:
            continue
        found[name] = {}
        for key in FIGURES:
            ours, theirs = of_the_same_minutes(cell, own, key)
            found[name][key] = sum(ours) / sum(theirs)
    return found


def within(found, key):
    return sum(abs(ratio[key] - 1) <= BOUNDS[key] for ratio in found.values())


def against_native(cells):
    rows = []
    for how, (called, beside) in WAYS.items():
        found = ratios(cells, how, beside)
        row = [called, max(cells[f"{how.split('/')[0]}/{name}"]["runs"] for name in found)]
        for key in FIGURES:
            values = [ratio[key] for ratio in found.values()]
            row.append(f"{within(found, key)} ({min(values):.2f}–{max(values):.2f})")
        rows.append(row + [overlap(cells, how.split("/")[0], beside)])
    text = table(["", "runs", "throughput within 2 %", "median within 5 %", "p95 within 20 %", "overlap"], rows)
    return text + f"\nOf {len(names(cells))} cells; in brackets the least and the largest share of native's.\n"


def overlap(cells, how, beside):
    """Of the distributions of the packets' queue delays, mean over the cells."""
    pairs = [(cells.get(f"{how}/{name}"), cells.get(f"{beside}/{name}")) for name in names(cells)]
    shared = [alcc_statistics.overlap(cell["delays"], own["delays"]) for cell, own in pairs
              if cell and own and "delays" in cell and "delays" in own]
    return f"{fmean(shared):.2f}" if shared else "–"


def sprout(cells):
    own, ours = cells["sprout/native"], cells["sprout/client-server"]
    return (f"Sprout on rapid-change, whose receiver must answer: native {shown(own)}, above TCP with acks inside the "
            f"stream (`--driver client-server` at both ends) {shown(ours)}.\n")


# Loss, tunnels, cost ------------------------------------------------------------------------------

def lossy(cells, shown=None):
    rows = []
    for path, percent in dict.fromkeys(tuple(name.split("/")[:2]) for name in cells):
        if shown and percent not in shown:
            continue
        at = lambda way: f"{mean(cells[f'{path}/{percent}/{way}'], 'throughput'):.1f}"
        label = path.removeprefix("--trace constant:").removesuffix(".down")
        ways = [f"{cc}/{how}" for cc in (TEACHER, "copa") for how in ("native", "gate", "kernel")]
        rows.append([label, f"{percent} %", *map(at, ["cubic", "bbr", *ways])])
    return table(["link", "loss", "Cubic", "BBR", "Verus: native", "gate", "kernel driver", "Copa: native", "gate",
                  "kernel driver"], rows)


def tunnels(runs):
    rows = []
    for name, run in runs.items():
        first, second = ([8 * count / 1e6 for count in run[which]] for which in ("first", "second"))
        indices = [jain(both) for both in zip(first, second) if both[1] > 0.5]
        own, beside = name.split("/")
        rows.append([own, beside, f"{fmean(first):.1f}", f"{fmean(second):.1f}", f"{fmean(indices):.2f}"])
    return table(["Copa", "beside", "Copa's Mbit/s", "the other's", "Jain's index"], rows)


def loopback(rates):
    return table(["over loopback, one flow", *rates], [["Gbit/s", *(f"{rate:.1f}" for rate in rates.values())]])
