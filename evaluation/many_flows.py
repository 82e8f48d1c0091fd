"""What a packet and a flow cost the simulator with one flow and with very many: microseconds of CPU time per packet (those that
were lost, too), and peak memory. Usage: python3 evaluation/many_flows.py path/to/cellpace [--record] [CC...]

Flows of one controller share a link of 2 Mbit/s each, at least 100 Mbit/s in all, with a round trip of 40 ms and a queue of as much.
All runs have about the same number of packets, so that more flows run for a shorter time. `--record` keeps the figures in
evaluation/many_flows.json, of which a table of docs/validation/above-tcp.md is made.
"""
import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

from program import ROOT, table, write

RECORDED = ROOT / "evaluation/many_flows.json"
CONTROLLERS = ["cubic", "newreno", "bic", "westwood", "vegas", "ledbat", "c2tcp", "verus", "mdi", "copa", "pace", "bbr", "bbr3", "prague",
               "scream", "vivace", "sprout"]
# In the page; the book has all.
SHOWN = ["cubic", "verus", "copa", "pace", "bbr", "sprout"]
FLOWS = [1, 100, 1000, 10_000]
PACKETS = 5_000_000


def measure(cellpace, cc, flows):
    """Of one run: microseconds per packet, and peak memory in kB."""
    mbps = max(100, 2 * flows)
    seconds = PACKETS * 1500 * 8 / (mbps * 1e6)
    queue = mbps * 1_000_000 // 8 * 40 // 1000
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = [cellpace, "compare", "--jobs", "1", "--cc", cc, "--flows", str(flows), "--trace", f"constant:{mbps}mbit",
                   "--rtt", "40ms", "--queue", f"droptail:{queue}B", "--duration", f"{seconds:g}s", "--skip", "0s",
                   "--quiet", "--json", str(result)]
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        if run.returncode:
            raise SystemExit(f"{' '.join(command)}\nended with {run.returncode}")
        figures = json.loads(result.read_text())["runs"][0]
    packets = figures["packets"] + figures["lost"]
    return 1e6 * (usage.ru_utime + usage.ru_stime) / packets, usage.ru_maxrss


def rows(found):
    """Of each controller: the cost of a packet with one flow, with more beside it, and what a flow of ten thousand takes."""
    lines = []
    for cc, runs in found.items():
        (base, memory), *more = runs.values()
        flows = list(runs)[-1]
        per_flow = (runs[flows][1] - memory) / (int(flows) - 1)
        beside = [f"{cost:.2f} ({cost / base:.1f})" for cost, _ in more]
        lines.append([f"`{cc}`", f"{base:.2f}", *beside, f"{per_flow:.1f}"])
    return lines


def thousands(flows):
    return f"{int(flows):,}".replace(",", " ")


def tables():
    return {"many-flows": full_table(SHOWN)}


def full_table(shown=None):
    """A row for each controller that is shown, without a list for all."""
    found = json.loads(RECORDED.read_text())["controllers"]
    header = ["controller", *map(thousands, next(iter(found.values()))), "kB a flow"]
    return table(header, rows({cc: of for cc, of in found.items() if shown is None or cc in shown}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cellpace", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("cc", nargs="*", default=CONTROLLERS)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    found = {}
    print("us per packet (beside one flow), by the number of flows:", *FLOWS, "- kB a flow", flush=True)
    for cc in options.cc:
        found[cc] = {str(flows): measure(options.cellpace, cc, flows) for flows in FLOWS}
        print(*rows({cc: found[cc]})[0], flush=True)
    if options.record:
        write(RECORDED, json.dumps({"controllers": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
