"""The tables of docs/validation/profiles.md: built-in profiles beside the traces that they were fitted to."""
import json
import tempfile
from pathlib import Path
from statistics import fmean

from program import by_cell, call, real, table

FITTED = {"lte-driving": "att-lte-driving", "umts-driving": "tmobile-umts-driving", "hspa-walking": "campus-walk",
          "hspa-city": "city-drive", "hspa-highway": "highway-drive", "hspa-fast": "highway-3g",
          "hspa-beach": "beachfront-walk", "hspa-merged": "mdi/channel00"}
CONTROLLERS = ["verus:r=2", "verus:r=6", "copa", "cubic"]
SEEDS = 10
# Of what `trace fit` compares.
SHOWN = ["mean Mbit/s", "1-s rate p5 Mbit/s", "1-s rate p50 Mbit/s", "1-s rate p95 Mbit/s", "CV 100 ms",
         "autocorrelation 1 s", "gap p99 ms", "longest gap ms", "time in outages %", "burst size mean", "inter-burst p99 ms"]
# Of the source's figure.
NEAR = 0.15
FIGURES = {"utilization": lambda run: run["utilization"], "mean": lambda run: run["queue_delay_ms"]["mean"],
           "p95": lambda run: run["queue_delay_ms"]["p95"]}


def tables():
    found = {profile: fitted(profile, source) for profile, source in FITTED.items()}
    rows = [[label] + [change(comparison[label]) for comparison, _ in found.values()] for label in SHOWN]
    figures = table(["figure"] + [f"{profile}: source, change" for profile in found], rows)
    rows = [[f"`{cc}`"] + [" / ".join(flagged(off) for off in changes[cc]) for _, changes in found.values()]
            for cc in CONTROLLERS]
    changes = [off for _, by_cc in found.values() for cc in CONTROLLERS for off in by_cc[cc]]
    near = sum(abs(off) <= NEAR for off in changes)
    return {"profile-figures": figures, "profile-controllers": table(["controller", *found], rows),
            "answer-profiles": f"{near} of {len(changes)} figures of controllers within {100 * NEAR:.0f} %"}


def fitted(profile, source):
    """The figures of the trace and of generated ones, and by controller how far off its own are on the latter."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        call("trace", "fit", real(source), "-o", folder / "p.profile", "--json", folder / "fit.json")
        comparison = json.loads((folder / "fit.json").read_text())["comparison"]
        comparison = {row["figure"]: row for row in comparison}
        duration = f"{comparison['seconds']['source']:.0f}s"
        made = [folder / f"{profile}-{seed}.down" for seed in range(1, SEEDS + 1)]
        for seed, path in enumerate(made, 1):
            call("trace", "make", profile, "-o", path, "--duration", duration, "--seed", seed)
        on_source = by_cell([real(source)], CONTROLLERS, "--duration", duration)
        on_made = by_cell(made, CONTROLLERS, "--duration", duration)
    changes = {cc: [fmean(figure(on_made[(path.name, cc)]) for path in made) / figure(on_source[(f"{Path(source).name}.down", cc)]) - 1
                    for figure in FIGURES.values()] for cc in CONTROLLERS}
    return comparison, changes


def change(row):
    source, generated = row["source"], row["generated"]
    if not source or not generated:
        return "–"
    return f"{source:.4g}, {100 * (generated / source - 1):+.0f} %"


def flagged(off):
    return f"{100 * off:+.0f} %" if abs(off) <= NEAR else f"**{100 * off:+.0f} %**"
