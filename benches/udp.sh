#!/bin/sh
# Cost of the transport: benches/udp.sh path/to/cellpace
# Loopback as fast as it goes; as root also 100 Mbit/s through a token bucket between two network
# namespaces, with the CPU seconds of both sides, to be multiplied to a gigabyte.
set -eu
cellpace=$1
out=$(mktemp)
trap 'rm -f "$out"' EXIT

timed() { # timed NAME COMMAND...: the command's last line, and its CPU seconds
    name=$1; shift
    bash -c 'TIMEFORMAT="$0: %U + %S s of CPU in %R s"; time "$@" 2>&1 | tail -n 1' "$name" "$@"
}

echo '==> loopback, fixed:cwnd=4MB, 5 s'
timed recv "$cellpace" recv --listen 127.0.0.1:5261 --once >"$out" 2>&1 &
sleep 0.5
timed send "$cellpace" send 127.0.0.1:5261 --duration 5s --cc fixed:cwnd=4MB
wait; cat "$out"

[ "$(id -u)" = 0 ] || exit 0
a=cellpace-bench-$$-a b=cellpace-bench-$$-b
trap 'rm -f "$out"; ip netns del $a 2>/dev/null; ip netns del $b 2>/dev/null' EXIT
ip netns add $a; ip netns add $b
ip link add veth0 netns $a type veth peer name veth0 netns $b
ip -n $a addr add 10.9.0.1/24 dev veth0; ip -n $a link set veth0 up
ip -n $b addr add 10.9.0.2/24 dev veth0; ip -n $b link set veth0 up
ip netns exec $a tc qdisc add dev veth0 root tbf rate 100mbit burst 20kb limit 500kb
for cc in verus fixed:cwnd=100kB; do
    echo "==> 125 MB at up to 100 Mbit/s, $cc (times eight: a gigabyte)"
    timed recv ip netns exec $b "$cellpace" recv --listen 10.9.0.2:5261 --once >"$out" 2>&1 &
    sleep 0.5
    timed send ip netns exec $a "$cellpace" send 10.9.0.2:5261 --bytes 125MB --cc $cc
    wait; cat "$out"
done
