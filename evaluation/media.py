"""RFC 8867's test cases under GCC and SCReAM: the table of docs/spec/gcc.md.

    python3 evaluation/regenerate.py path/to/cellpace media
"""
from statistics import mean

from program import ROOT, simulate, table

SCENARIOS = ROOT / "examples" / "scenarios"


def cell(run):
    videos = [flow["video"] for flow in run["per_flow"] if flow.get("video")]
    rates = "+".join(f"{video['bitrate_mbps']:.2f}" for video in videos)
    late = mean(video["late"] for video in videos)
    return f"{rates} / {100 * late:.0f} / {run['queue_delay_ms']['p95']:.0f}"


def tables():
    rows = []
    for file in sorted(SCENARIOS.glob("rfc8867-*.toml")):
        text = file.read_text()
        rows.append([file.stem.removeprefix("rfc8867-"), cell(simulate(text)), cell(simulate(text.replace('"gcc:', '"scream:')))])
    return {"rfc8867": table(["case", "`gcc`", "`scream`"], rows)}
