#!/bin/sh
# Speed of whole runs, measured from the command line: evaluation/runs.sh path/to/cellpace
# One run at a time on one core. The machine's own noise shows between the repeats; compare
# ratios within one call.
set -eu
export CELLPACE_TIMING=1
cellpace=$1
run() { "$cellpace" compare --jobs 1 --skip 0s "$@"; echo; }

echo '==> 100 Mbit/s, 40 ms, 60 s, full statistics: one flow (three repeats)'
for _ in 1 2 3; do
    run --trace constant:100mbit --duration 60s --cc cubic --cc verus:r=2 --cc copa --cc bbr
done
for flows in 20 200; do
    echo "==> the same with $flows flows"
    run --trace constant:100mbit --duration 60s --flows $flows --cc cubic --cc verus:r=2
done
echo '==> a random rate redrawn every 5 s'
run --trace random:10mbit..100mbit/5s --duration 300s --cc cubic --cc verus:r=2
if [ -n "${CELLPACE_TRACES:-}" ]; then
    echo '==> real traces, 300 s'
    for trace in city-drive highway-3g rapid-change; do
        run --trace "$CELLPACE_TRACES/$trace.down" --duration 300s --cc cubic --cc verus:r=2
    done
fi
echo '==> memory of a run of 300 s at 100 Mbit/s'
python3 - "$cellpace" <<'PY'
import resource, subprocess, sys
for cc in ("cubic", "verus:r=2"):
    subprocess.run([sys.argv[1], "compare", "--jobs", "1", "--trace", "constant:100mbit",
                    "--duration", "300s", "--cc", cc, "--json", "-"],
                   stdout=subprocess.DEVNULL, check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{cc}: peak so far {peak:.1f} MB")
PY
echo '==> runs side by side: wall time by the number of cores'
python3 - "$cellpace" <<'PY'
import os, subprocess, sys, time
def seconds(jobs, flows, duration):
    rate = 2 * flows
    before = time.monotonic()
    subprocess.run([sys.argv[1], "compare", "--jobs", str(jobs), "--repeat", "4", "--cc", "verus", "--cc", "cubic",
                    "--flows", str(flows), "--trace", f"constant:{rate}mbit", "--queue", f"droptail:{rate * 5000}B",
                    "--duration", duration, "--skip", "0s", "--quiet", "--json", "-"], stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - before
for flows, duration in ((100, "30s"), (10_000, "1s")):
    base, most = seconds(1, flows, duration), os.cpu_count()
    print(f"{flows} flows: 1 core {base:.1f} s, {most} cores {base / seconds(most, flows, duration):.2f} times as fast")
PY
echo '==> many flows'
python3 "$(dirname "$0")/many_flows.py" "$cellpace"
