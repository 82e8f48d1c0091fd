"""The tables of docs/validation/simulator.md: built-in profiles beside the traces that they were fitted to."""
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
# Of the source's figure.
NEAR = 0.15
FIGURES = {"utilization": lambda run: run["utilization"], "mean": lambda run: run["queue_delay_ms"]["mean"],
           "p95": lambda run: run["queue_delay_ms"]["p95"]}


def tables():
    found = {profile: fitted(profile, source) for profile, source in FITTED.items()}
    rows = [[f"`{cc}`"] + [" / ".join(flagged(off) for off in changes[cc]) for changes in found.values()]
            for cc in CONTROLLERS]
    changes = [off for by_cc in found.values() for cc in CONTROLLERS for off in by_cc[cc]]
    near = sum(abs(off) <= NEAR for off in changes)
    return {"profile-controllers": table(["change, %", *found], rows),
            "answer-profiles": f"{near} of {len(changes)} figures of controllers within {100 * NEAR:.0f} %"}


def fitted(profile, source):
    """By controller how far off its figures on generated traces are from those on the source."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        call("trace", "fit", real(source), "-o", folder / "p.profile", "--json", folder / "fit.json")
        comparison = json.loads((folder / "fit.json").read_text())["comparison"]
        seconds = next(row["source"] for row in comparison if row["figure"] == "seconds")
        duration = f"{seconds:.0f}s"
        made = [folder / f"{profile}-{seed}.down" for seed in range(1, SEEDS + 1)]
        for seed, path in enumerate(made, 1):
            call("trace", "make", profile, "-o", path, "--duration", duration, "--seed", seed)
        on_source = by_cell([real(source)], CONTROLLERS, "--duration", duration)
        on_made = by_cell(made, CONTROLLERS, "--duration", duration)
    return {cc: [fmean(figure(on_made[(path.name, cc)]) for path in made) / figure(on_source[(f"{Path(source).name}.down", cc)]) - 1
                    for figure in FIGURES.values()] for cc in CONTROLLERS}


def flagged(off):
    return f"{100 * off:+.0f}" if abs(off) <= NEAR else f"**{100 * off:+.0f}**"
