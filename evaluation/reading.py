"""The tables of docs/reading-results.md: which controller for what, random loss, and single figures
that its text needs. All of it is in virtual time, and needs no recorded trace."""
from math import sqrt
from statistics import mean, stdev

from program import compare, simulate, table

SEEDS = 5
CONTROLLERS = ["verus", "verus:r=4", "verus:r=6", "mdi", "copa", "sprout", "pace", "vegas", "ledbat", "bbr", "bbr3",
               "cubic", "newreno", "c2tcp", "vivace"]
# Variants of Verus and what has no use here besides research stand in `choice` alone.
SHARING = [cc for cc in CONTROLLERS if cc not in ("verus:r=4", "verus:r=6", "newreno", "c2tcp", "vivace")]
LOSSES = ["0%", "1%"]
LOSS_LINKS = ["constant:12mbit"]
LOSS_CONTROLLERS = ["verus", "mdi", "copa", "sprout", "pace", "vegas", "bbr", "bbr3", "cubic"]
VIDEO_LINKS = ["lte-driving", "hspa-walking", "5g-midband", "constant:12mbit"]
VIDEO_CONTROLLERS = ["scream", "copa", "pace", "vegas", "verus", "bbr", "cubic"]
# A bottleneck that marks as L4S has it (RFC 9332).
L4S_QUEUE = "dualpi2"
L4S_LINKS = ["constant:12mbit", "constant:100mbit", "lte-driving"]
L4S_CONTROLLERS = ["prague", "bbr3:ecn=true", "cubic:ecn=true", "cubic", "copa", "pace"]
# Flows that share a link.
SHARED = """\
trace = "{trace}"
rtt = "{rtt}ms"
queue = "{queue}"
duration = "{seconds}s"
skip = "{skip}s"

"""
# Deep, as base stations have it; one bandwidth-delay product; and fair.
QUEUES = {"2 MB": "droptail:2MB", "60 kB": "droptail:60kB", "FQ-CoDel": "fq_codel"}
# Shares hang on how packets meet, so those beside Cubic are means over RTTs: a packet takes 1 ms.
RTTS = [40 + tenths / 10 for tenths in range(11)]
# Student's t for 95 % and eleven RTTs.
T = 2.228
# What cells of `share_and_delay` have.
SHARE_AND_DELAY = "utilization, % / p95, ms"
CALL = '[[flow]]\nudp = "500kbit"\n'


def tables():
    shared, answer = flows()
    return {"choice": choice(), "loss": loss(), "video": video(), "l4s": l4s(), "alone": alone(),
            "flows": shared, "answer-flows": answer}


# Which controller for what ------------------------------------------------------------------

def choice():
    alone = means(["lte-driving", "5g-midband"], CONTROLLERS)
    first = means(["lte-driving"], CONTROLLERS, "--skip", "0s", "--duration", "1s", seeds=40)
    lossy = means(["lte-driving"], CONTROLLERS, "--loss", "1%", "--duration", "60s")
    rows = []
    for cc in CONTROLLERS:
        call = [run["per_flow"][0]["queue_delay_ms"]["p95"] for run in shared("hspa-walking", CALL + flow(cc))]
        kilobytes = mean(run["throughput_mbps"] for run in first["lte-driving", cc]) / 8 * 1000
        rows.append([f"`{cc}`", share_and_delay(alone["lte-driving", cc]), f"{mean(call):.0f}", f"{kilobytes:.0f}",
                     beside_cubic(cc, "60 kB"), share(lossy["lte-driving", cc]), share_and_delay(alone["5g-midband", cc])])
    return table(["controller", "bulk, % / ms", "a call beside it, ms", "first second, kB", "beside Cubic, %", "with 1 % loss, %",
                  "5G, % / ms"], rows)


def shared(trace, flows, queue="2 MB", seconds=60, skip=10, rtt=40):
    """Runs of a scenario, one for each seed."""
    scenario = SHARED.format(trace=trace, queue=QUEUES[queue], seconds=seconds, skip=skip, rtt=rtt) + flows
    return [simulate(scenario, "--seed", seed) for seed in range(1, SEEDS + 1)]


def beside_cubic(cc, queue):
    """Its share of the throughput of the two, on 12 Mbit/s: the mean over RTTs with its 95 % interval."""
    def of(rtt):
        return 100 * mean(map(first_share, shared("constant:12mbit", flow(cc) + flow("cubic"), queue, rtt=rtt)))

    shares = [of(rtt) for rtt in RTTS]
    return f"{mean(shares):.0f} ± {T * stdev(shares) / sqrt(len(shares)):.0f}"


def first_share(run):
    return run["per_flow"][0]["throughput_mbps"] / sum(one["throughput_mbps"] for one in run["per_flow"])


def flow(cc):
    return f'[[flow]]\ncc = "{cc}"\n'


# Random loss ------------------------------------------------------------------------------------

def loss():
    found = {lost: means(LOSS_LINKS, LOSS_CONTROLLERS, "--loss", lost, "--duration", "60s") for lost in LOSSES}
    header = [SHARE_AND_DELAY] + [f"{link.removeprefix('constant:')}, {lost.replace('%', ' %')}"
                               for link in LOSS_LINKS for lost in LOSSES]
    return table(header, [[f"`{cc}`"] + [share_and_delay(found[lost][link, cc]) for link in LOSS_LINKS for lost in LOSSES]
                          for cc in LOSS_CONTROLLERS])


# Video ------------------------------------------------------------------------------------------

def video():
    """Rate of the frames, 95th percentile of the frame delay, late frames."""
    found = means(VIDEO_LINKS, VIDEO_CONTROLLERS, "--video", "fps=30", "--duration", "60s")
    return table(["Mbit/s / ms / % late"] + [link.removeprefix("constant:") for link in VIDEO_LINKS],
                 [[f"`{cc}`"] + [frames(found[link, cc]) for link in VIDEO_LINKS] for cc in VIDEO_CONTROLLERS])


def frames(runs):
    videos = [run["per_flow"][0]["video"] for run in runs]
    rate, late = (mean(video[figure] for video in videos) for figure in ("bitrate_mbps", "late"))
    return f"{rate:.1f} / {mean(video['frame_delay_ms']['p95'] for video in videos):.0f} / {100 * late:.0f}"


# L4S --------------------------------------------------------------------------------------------

def l4s():
    return by_trace(L4S_LINKS, L4S_CONTROLLERS, "--queue", L4S_QUEUE, "--duration", "60s")


# Single figures ---------------------------------------------------------------------------------

def alone():
    """What a controller has alone, beside its own kind, and beside Cubic."""
    rows = []
    for cc in ["vegas", "copa", "verus", "ledbat", "sprout", "bbr"]:
        row = [f"`{cc}`"]
        for count in (1, 2):
            runs = shared("constant:12mbit", flow(cc) * count)
            got = mean(run["per_flow"][0]["throughput_mbps"] for run in runs)
            row.append(f"{got:.1f} / {mean(run['queue_delay_ms']['p95'] for run in runs):.0f}")
        rows.append(row + [beside_cubic(cc, queue) for queue in QUEUES])
    return table(["controller", "alone, Mbit/s / ms", "beside another, Mbit/s / ms",
                  *(f"beside Cubic, {queue}, %" for queue in QUEUES)], rows)


def flows():
    """How flows of one kind share: Jain's index over seconds and p95, and what a late-comer gets. The
    table, and its first cell in words."""
    rows = []
    for cc in SHARING:
        row = [f"`{cc}`"]
        for trace in ("constant:12mbit", "lte-driving"):
            runs = shared(trace, flow(cc) * 4, seconds=120)
            row.append(f"{mean(run['jain'] for run in runs):.2f} / {mean(run['queue_delay_ms']['p95'] for run in runs):.0f}")
        late = flow(cc) + 'start = "30s"\n' + flow(cc)
        shares = map(first_share, shared("constant:12mbit", late, seconds=150, skip=40))
        rows.append(row + [f"{100 * mean(shares):.0f}"])
    jain, p95 = rows[0][1].split(" / ")
    return (table(["Jain's index / ms", "four on 12 Mbit/s", "four on lte-driving", "a late-comer's share, %"], rows),
            f"Jain's index {jain} over seconds, p95 of the queue delay {p95} ms")


def by_trace(traces, ccs, *options):
    runs = means(traces, ccs, *options)
    rows = [[f"`{cc}`"] + [share_and_delay(runs[trace, cc]) for trace in traces] for cc in ccs]
    return table([SHARE_AND_DELAY] + traces, rows)


def means(traces, ccs, *options, seeds=SEEDS):
    """Runs by (trace, controller), one for each seed."""
    found = {}
    for run in compare(traces, ccs, *options, "--repeat", seeds)["runs"]:
        found.setdefault((run["trace"], run["cc"]), []).append(run)
    return found


def share(runs):
    return f"{100 * mean(run['utilization'] for run in runs):.0f}"


def share_and_delay(runs):
    return f"{share(runs)} / {mean(run['queue_delay_ms']['p95'] for run in runs):.0f}"
