"""How the scripts that regenerate the documentation run the program and write pages."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CELLPACE = str(Path(sys.argv[1] if len(sys.argv) > 1 else "./target/release/cellpace").resolve())
TRACES = os.environ.get("CELLPACE_TRACES")


def call(*args, cwd=None):
    done = subprocess.run([CELLPACE, *map(str, args)], capture_output=True, text=True, cwd=cwd)
    if done.returncode:
        sys.exit(f"cellpace {' '.join(map(str, args))}\n{done.stderr}")
    return done.stdout


def compare(traces, ccs, *options, cwd=None):
    """What `compare` writes as JSON."""
    args = [word for trace in traces for word in ("--trace", trace)]
    args += [word for cc in ccs for word in ("--cc", cc)]
    return json.loads(call("compare", *args, *options, "--json", "-", cwd=cwd))


def by_cell(traces, ccs, *options):
    """Runs of `compare`, by (trace, controller)."""
    return {(run["trace"], run["cc"]): run for run in compare(traces, ccs, *options)["runs"]}


def simulate(scenario, *options):
    """The first run of `sim` over a scenario's text."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(scenario)
        file.flush()
        return json.loads(call("sim", file.name, *options, "--json", "-"))["runs"][0]


def jain(shares):
    """Jain's index: 1 if all have the same, 1/n if one has all."""
    return sum(shares) ** 2 / (len(shares) * sum(share ** 2 for share in shares))


def real(name):
    return f"{TRACES}/{name}.down"


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def write(path, text):
    aside = path.with_suffix(path.suffix + ".new")
    aside.write_text(text)
    aside.replace(path)
    print(f"wrote {path.relative_to(ROOT)}")
