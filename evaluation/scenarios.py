"""The table of examples/scenarios without the finds of `attack` and the cases of RFC 8867 (docs/spec/gcc.md): what each is about, by its first line, and the
figures of its run."""
import json

from program import ROOT, call, table

FOLDER = ROOT / "examples" / "scenarios"


def tables():
    header = ["scenario", "what it is", "Mbit/s of each flow, RTT of pings", "queue p95, ms", "lost, %"]
    paths = [path for path in sorted(FOLDER.glob("*.toml")) if not path.name.startswith(("attack-", "rfc8867-"))]
    return {"scenarios": table(header, [row(path) for path in paths])}


def row(path):
    run = json.loads(call("sim", path, "--json", "-"))["runs"][0]
    about = path.read_text().splitlines()[0].removeprefix("# ")
    shown = [f"{flow['cc']} {flow['throughput_mbps']:.1f}" for flow in run["per_flow"]]
    shown += [f"pings {ping['rtt_ms']['p50']:.0f} ms" for ping in run.get("pings", [])]
    sent = run["packets"] + run["lost"]
    return [f"[{path.stem}](../../examples/scenarios/{path.name})", about, ", ".join(shown),
            f"{run['queue_delay_ms']['p95']:.0f}", f"{100 * run['lost'] / sent:.2f}"]
