"""Paths on which controllers do worst, as `cellpace attack` finds them: the table of docs/how-to/attack.md, and the
scenarios examples/scenarios/attack-*.toml, which show the same figures.

    python3 evaluation/regenerate.py path/to/cellpace attacks
"""
import json
import tempfile
from pathlib import Path

from program import ROOT, call, table, write

SCENARIOS = ROOT / "examples" / "scenarios"
CONTROLLERS = ["pace", "verus", "copa", "bbr", "cubic"]
# By what, and beside whom: a path that is as hard for Cubic, alone on it, does not count.
ATTACKS = {"utilization": ["--against", "cubic"], "delay": ["--against", "copa"], "fairness": ["--against", "cubic"]}
# A rival of the same kind would do as badly.
OTHER_RIVALS = {("cubic", "utilization"): "bbr", ("copa", "delay"): "pace", ("cubic", "fairness"): "bbr"}
OPTIONS = ["--budget", 300, "--rate", "1mbit..20mbit", "--duration", "20s"]


def found(cc, worst):
    rival = OTHER_RIVALS.get((cc, worst), ATTACKS[worst][1])
    with tempfile.TemporaryDirectory() as folder:
        scenario, result = Path(folder) / "find.toml", Path(folder) / "find.json"
        call("attack", "--cc", cc, "--worst", worst, "--against", rival, *OPTIONS, "--output", scenario, "--json", result)
        SCENARIOS.mkdir(parents=True, exist_ok=True)
        write(SCENARIOS / f"attack-{cc}-{worst}.toml", scenario.read_text())
        return json.loads(result.read_text())


def figure(find, value):
    return "–" if value is None else f"{value:.0f} ms" if find["worst"] == "delay" else f"{100 * value:.0f} %"


def levels(steps, key, text):
    """One quantity over time: its values in turn, each once."""
    values = [step[key] for step in steps]
    turns = [value for at, value in enumerate(values) if at == 0 or values[at - 1] != value]
    return " → ".join(text(value) for value in turns)


def path(find):
    steps = find["path"]["steps"]
    rate = levels(steps, "rate_kbps", lambda kbps: f"{kbps / 1000:g}")
    parts = [f"{rate} Mbit/s", levels(steps, "rtt_ms", str) + " ms", f"{find['path']['buffer_kb']} kB"]
    loss = levels(steps, "loss_hundredths", lambda share: f"{share / 100:g}")
    parts += [] if loss == "0" else [f"loss {loss} %"]
    return ", ".join(parts) + f"; {sum(step['length_ms'] for step in steps) / 1000:g} s"


def row(cc, worst):
    find = found(cc, worst)
    of_rival = figure(find, find["shrunk"]["rival"])
    rival = f"beside {find['against']}" if worst == "fairness" else f"{find['against']}: {of_rival}"
    return [f"`{cc}`", worst, figure(find, find["shrunk"]["figure"]), rival, path(find)]


def tables():
    header = ["controller", "by", "figure", "rival", "path: rate, RTT, buffer, loss; length"]
    return {"attacks": table(header, [row(cc, worst) for cc in CONTROLLERS for worst in ATTACKS])}
