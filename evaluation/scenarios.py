"""The table of examples/scenarios: what each is about, by its first line, and the figures of its run."""
import json

from program import ROOT, call, table

FOLDER = ROOT / "examples" / "scenarios"


def tables():
    header = ["scenario", "what it is", "Mbit/s of each flow", "queue p95, ms", "lost, %"]
    return {"scenarios": table(header, [row(path) for path in sorted(FOLDER.glob("*.toml"))])}


def row(path):
    run = json.loads(call("sim", path, "--json", "-"))["runs"][0]
    about = path.read_text().splitlines()[0].removeprefix("# ")
    rates = ", ".join(f"{flow['cc']} {flow['throughput_mbps']:.1f}" for flow in run["per_flow"])
    sent = run["packets"] + run["lost"]
    return [f"[{path.stem}](../../examples/scenarios/{path.name})", about, rates,
            f"{run['queue_delay_ms']['p95']:.0f}", f"{100 * run['lost'] / sent:.2f}"]
