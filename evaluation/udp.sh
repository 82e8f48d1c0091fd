#!/bin/sh
# Cost of the transport: evaluation/udp.sh path/to/cellpace
# Loopback as fast as it goes under several controllers, a flow that has nothing to send, and 125 MB over an emulated link of
# 100 Mbit/s, with the CPU seconds of both sides but not the link's own, and those of a gigabyte.
set -eu
cellpace=$(realpath "$1")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# timed NAME COMMAND...: the command's last line, and its CPU seconds, which stay in $out/NAME
cat >"$out/timed" <<'TIMED'
name=$1; shift
folder=$(dirname "$0")
TIMEFORMAT='%U %S %R'
{ time "$@" >"$folder/$name.said" 2>&1; } 2>"$folder/$name"
tail -n 1 "$folder/$name.said"
read -r user system real <"$folder/$name"
echo "$name: $user + $system s of CPU in $real s"
TIMED
timed() { bash "$out/timed" "$@"; }

# Nothing of an earlier run is taken for one of this.
fresh() { rm -f "$out/send" "$out/recv"; }

# CPU seconds of both sides, times $1.
both() { cat "$out/send" "$out/recv" | awk -v times="$1" '{ cpu += $1 + $2 } END { printf "%.2f", cpu * times }'; }

# What encryption costs is the difference to --plain.
for flow in 'fixed:cwnd=4MB --plain' fixed:cwnd=4MB 'fixed:cwnd=4MB --plain --unreliable' \
    'verus:r=6 --plain' verus:r=6 'verus --plain' verus 'copa --plain' copa; do
    form=$(echo "${flow#"${flow%% *}"}" | sed 's/ --unreliable//')
    echo "==> 5 GB over loopback, $flow"
    fresh
    # shellcheck disable=SC2086
    timed recv "$cellpace" recv --listen 127.0.0.1:5261 --once $form &
    sleep 0.5
    # shellcheck disable=SC2086
    timed send "$cellpace" send 127.0.0.1:5261 --bytes 5GB --cc $flow
    wait
    echo "both sides: $(both 0.2) s of CPU for a gigabyte"
done

echo '==> a flow that has nothing to send, 20 s'
fresh
timed recv "$cellpace" recv --listen 127.0.0.1:5261 --once &
sleep 0.5
sleep 20 | timed send "$cellpace" send 127.0.0.1:5261 - --cc verus:r=6
wait
echo "both sides: $(both 5) % of a core"

for flow in verus:r=6 fixed:cwnd=600kB 'fixed:cwnd=600kB --plain'; do
    form=${flow#"${flow%% *}"}
    echo "==> 125 MB over a link of 100 Mbit/s and 40 ms, $flow"
    fresh
    send="exec bash '$out/timed' send '$cellpace' send --listen \$CELLPACE_PEER:5261 --bytes 125MB --cc $flow"
    recv="sleep 0.3; bash '$out/timed' recv '$cellpace' recv \$CELLPACE_PEER:5261$form; sleep 1"
    if ! "$cellpace" link --trace constant:100mbit --rtt 40ms --far "$send" -- sh -c "$recv"; then
        echo 'no links here'
        break
    fi
    echo "both sides: $(both 8) s of CPU for a gigabyte"
done
