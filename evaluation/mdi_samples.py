"""Whether samples of real flows make the table that samples of virtual ones make (section 4.1 of the MDI paper).

Usage: CELLPACE_TRACES=FOLDER python3 evaluation/mdi_samples.py ./target/release/cellpace OUT.json

A flow of Verus runs over an emulated link for a minute of each of four channels, with real packets, and again in virtual
time. A table is made of each set of samples, and both run in virtual time on a channel that neither was learnt on."""

import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TEACHER, STATES = "verus:r=2", "absolute:bin=2ms"
QUEUE = "red:min=3mbit,max=9mbit,p=0.1%,gentle=false"
CHANNELS, EVALUATED = ["channel00", "channel01", "channel02", "channel03"], "channel08"
SECONDS, REPEATS = 60, 5


def trace(channel):
    return str(Path(os.environ["CELLPACE_TRACES"]) / "mdi" / f"{channel}.down")


def real_samples(cellpace, channel, out):
    """One flow over an emulated link; the sender is on the far side. Returns how late the link's packets were."""
    send = (f"exec {cellpace} send --listen $CELLPACE_PEER:5260 --cc {TEACHER} --unreliable --duration {SECONDS}s "
            f"--mdi-samples {out} --mdi-users 1 --quiet")
    done = subprocess.run([cellpace, "link", "--trace", trace(channel), "--rtt", "40ms", "--queue", QUEUE, "--far", send,
                           "--", "sh", "-c", f"sleep 1; exec {cellpace} recv $CELLPACE_HOST --quiet"],
                          check=True, stderr=subprocess.PIPE, text=True)
    late = re.search(r"late p50 (\d+) p99 (\d+) max (\d+) us", done.stderr)
    return dict(zip(["p50", "p99", "max"], map(int, late.groups())))


def joined(files, out):
    """All samples in one file, chains numbered through."""
    with open(out, "w", newline="") as target:
        rows, last, chain = csv.writer(target), None, -1
        rows.writerow(["chain", "users", "delay_ms", "window_pkts", "sent"])
        for file in files:
            for row in csv.DictReader(open(file, newline="")):
                chain += (file, row["chain"]) != last
                last = (file, row["chain"])
                rows.writerow([chain, row["users"], row["delay_ms"], row["window_pkts"], row["sent"]])
    return sum(1 for _ in open(out)) - 1


def main():
    cellpace, out = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        real = [folder / f"{channel}.csv" for channel in CHANNELS]
        late = [real_samples(cellpace, channel, file) for channel, file in zip(CHANNELS, real)]
        count = {"real": joined(real, folder / "real.csv")}
        traces = [word for channel in CHANNELS for word in ("--trace", trace(channel))]
        subprocess.run([cellpace, "mdi", "train", "--cc", TEACHER, *traces, "--users", "1", "--duration", f"{SECONDS}s",
                        "--queue", QUEUE, "-o", folder / "virtual.csv"], check=True)
        count["virtual"] = sum(1 for _ in open(folder / "virtual.csv")) - 1
        cells = {}
        for kind in count:
            subprocess.run([cellpace, "mdi", "convert", folder / f"{kind}.csv", "--teacher", TEACHER, "--states", STATES,
                            "-o", folder / f"{kind}.mdi"], check=True)
            said = subprocess.run([cellpace, "compare", "--trace", trace(EVALUATED), "--cc",
                                   f"mdi:model={folder / kind}.mdi", "--queue", QUEUE, "--repeat", str(REPEATS),
                                   "--duration", "300s", "--skip", "2s", "--json", "-"], check=True, capture_output=True)
            runs = json.loads(said.stdout)["runs"]
            cells[kind] = {"throughput": {"runs": [round(run["throughput_mbps"], 3) for run in runs]},
                           "one_way_delay": {"runs": [run["one_way_delay_ms"]["mean"] for run in runs]},
                           "samples": count[kind]}
        out.write_text(json.dumps({"tables": cells, "late_us": late}, indent=1) + "\n")


if __name__ == "__main__":
    main()
