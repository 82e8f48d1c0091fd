"""The tables of docs/validation/pace.md that say what Pace has to reach and does: alone on constant links and 5G, at
a new rate, over a base RTT that moves, beside its own kind and others, in short transfers, and as a Markov table. All of it is in virtual time."""
import random
import tempfile
from statistics import mean

from frontier import TEST, TRAINING
from program import TRACES, call, compare, jain, simulate, table

OURS = "pace"
OTHERS = ["cubic", "bbr"]
CCS = [OURS, *OTHERS]
RTT_MS = 40
# When the second flow starts: who gets what depends on it, so each row of shares has a run for each.
STARTS = [0, 0.3, 0.7, 1.3, 2, 3]
# Each of them over another RTT, by fractions of a packet's time: shares hang on how packets meet.
RTTS_MS = dict(zip(STARTS, [40, 40.2, 40.4, 40.6, 40.8, 41]))
UPWARDS = "step:40ms/5s,45ms/5s,50ms/5s,55ms/5s,60ms/5s,65ms/5s,70ms/1000s"
# A packet of 1500 bytes.
PACKET_BITS = 12000


def tables():
    found = {"pace-constant": constant(), "pace-convergence": convergence(), "pace-sharing": sharing(),
             "pace-beside": beside(), "pace-short": short_flows(), "pace-moving": moving(), "pace-drawn": drawn(),
             "pace-drawn-least": drawn_least(), "pace-left": left(), "pace-neighbours": neighbours(), "pace-stacks": stacks()}
    return found | ({"pace-markov": markov()} if TRACES else {})


def verdicts(first, rows):
    """A table of rows (case, asked, text and whether it is met by controller); Pace's decides, and nothing where
    nothing is asked."""
    def verdict(asked, cells):
        return ("met" if cells[OURS][1] else "**not met**") if asked else "–"

    lines = [[case, asked or "–", *(cells[cc][0] if cc in cells else "–" for cc in CCS), verdict(asked, cells)]
             for case, asked, cells in rows]
    return table([first, "asked", *(f"`{cc}`" for cc in CCS), "verdict"], lines)


def run(flows, trace="constant:12mbit", queue="2MB", seconds=60, skip=10, bin="100ms", start=0):
    return simulate(f'trace = "{trace}"\nrtt = "{RTTS_MS[start]}ms"\nqueue = "droptail:{queue}"\nduration = "{seconds}s"\n'
                    f'skip = "{skip}s"\nbin = "{bin}"\n{flows}')


def flow(cc, *fields):
    return "\n".join(["[[flow]]", f'cc = "{cc}"', *fields]) + "\n"


def start_at(seconds):
    return f'start = "{seconds}s"'


def rates(outcome):
    return [one["throughput_mbps"] for one in outcome["per_flow"]]


def p95(outcome):
    return outcome["queue_delay_ms"]["p95"]


# Constant links, and 5G ---------------------------------------------------------------------------------

def constant():
    def row(trace, seconds, share, most, exclusive=False):
        cells = {}
        for one in compare([trace], CCS, "--duration", f"{seconds}s", "--skip", "2s")["runs"]:
            # As precise as it is shown, and no more.
            utilization, delay = round(one["utilization"], 3), round(p95(one), 1)
            met = utilization >= share and (delay < most if exclusive else delay <= most)
            cells[one["cc"]] = f"{100 * utilization:.1f} % / {delay:.1f} ms", met
        return trace, f"{100 * share:.0f} % / {most:.0f} ms", cells

    links = [(1, 60), (12, 60), (100, 30), (1000, 10)]
    # Two packets where they take longer than 5 ms.
    rows = [row(f"constant:{mbit}mbit", seconds, 0.97, max(5, 2 * PACKET_BITS / mbit / 1000)) for mbit, seconds in links]
    return verdicts("link", rows + [row("5g-midband", 60, 0.9, 50, exclusive=True)])


# A new rate ---------------------------------------------------------------------------------------------

STEPS = [(12, 120), (1.2, 12)]
# Seconds that a rate stays.
HOLDS = 10


# A base RTT that moves by itself ------------------------------------------------------------------------

# Those on which the constants of the specification's section 7 were chosen have a star.
MOVING = [("constant:48mbit", "40ms"), ("constant:48mbit", "random:38ms..42ms/10ms"),
          ("constant:48mbit", "random:35ms..45ms/10ms"), ("constant:48mbit", "random:30ms..50ms/10ms*"),
          ("constant:5mbit", "random:30ms..50ms/10ms"), ("constant:400mbit", "random:30ms..50ms/10ms"),
          ("constant:48mbit", "random:20ms..60ms/100ms*"), ("constant:48mbit", "random:20ms..60ms/1s*"),
          ("constant:48mbit", "random:30ms..50ms/300ms*"), ("constant:48mbit", "random:90ms..130ms/100ms*"),
          ("constant:48mbit", "random:10ms..20ms/100ms*"), ("constant:12mbit", "random:50ms..70ms/50ms"),
          ("constant:100mbit", "random:15ms..45ms/30ms"), ("constant:48mbit", "random:10ms..49ms/30ms"),
          ("constant:12mbit", UPWARDS + "*"),
          ("constant:48mbit", "step:40ms/5s,70ms/5s*"), ("constant:48mbit", "step:30ms/15s,50ms/15s,25ms/15s,60ms/15s"),
          ("lte-driving", "random:40ms..60ms/20ms")]
MEASURES = ["pace", "bbr"]


def alone(cc, trace, rtt, seed=1, seconds=60, skip=2):
    return simulate(f'trace = "{trace}"\nrtt = "{rtt}"\nqueue = "droptail:2MB"\nduration = "{seconds}s"\n'
                    f'skip = "{skip}s"\nseed = {seed}\n{flow(cc)}')


def moving():
    """Utilization and p95, and whether Pace has 95 % and no longer a queue than BBR and the range of the RTT."""
    rows = []
    for trace, named in MOVING:
        runs = {cc: alone(cc, trace, named.rstrip("*")) for cc in MEASURES}
        ours, bbr = runs[OURS], runs["bbr"]
        met = ours["utilization"] >= 0.95 and p95(ours) <= p95(bbr)
        cells = [f"{100 * run['utilization']:.0f} % / {p95(run):.0f} ms" for run in runs.values()]
        name = named.replace(UPWARDS, "from 40 to 70 ms in steps of 5 ms each 5 s")
        rows.append([f"{trace}, {name}", *cells, "met" if met else "**not met**"])
    return table(["path", *(f"`{cc}`" for cc in MEASURES), "verdict"], rows)


def drawn(count=60):
    """Paths at random: the share of the better of BBR and Cubic that Pace has, and its queue beside BBR's."""
    draw = random.Random(7)
    rows = []
    for rates in ([1, 5], [20, 48], [120, 400]):
        shares, longer = [], 0
        for _ in range(count // 3):
            low, width, period = draw.randint(10, 180), draw.randint(2, 40), draw.choice([10, 30, 100, 300, 1000])
            trace, rtt = f"constant:{draw.choice(rates)}mbit", f"random:{low}ms..{low + width}ms/{period}ms"
            runs = {cc: alone(cc, trace, rtt, draw.randint(1, 10**6), 40, 5) for cc in (OURS, "bbr", "cubic")}
            best = max(runs["bbr"]["utilization"], runs["cubic"]["utilization"])
            shares.append(runs[OURS]["utilization"] / best)
            longer += p95(runs[OURS]) > p95(runs["bbr"]) + width
        shares.sort()
        rows.append([" or ".join(map(str, rates)) + " Mbit/s", len(shares), sum(share >= 0.9 for share in shares),
                     f"{shares[0]:.2f}", f"{shares[len(shares) // 2]:.2f}", longer])
    return table(["paths", "drawn", "0.9 or more of the better of BBR and Cubic", "least", "median",
                  "p95 above BBR's and the range"], rows)


def drawn_least(count=500):
    """The least utilization of Pace on paths at random whose RTT moves by at most its smallest value, and on those where
    it moves by two to four times this."""
    draw = random.Random(11)

    def least(lows, widths):
        def one():
            low = draw.randint(*lows)
            width = draw.randint(*widths(low))
            trace = f"constant:{draw.choice([5, 20, 48, 120])}mbit"
            rtt = f"random:{low}ms..{low + width}ms/{draw.choice([10, 30, 100, 300])}ms"
            return alone(OURS, trace, rtt, draw.randint(1, 10**6), 20, 5)["utilization"]
        return min(one() for _ in range(count))

    by_its_smallest = least((10, 120), lambda low: (2, min(low, 40)))
    by_more = least((10, 16), lambda low: (2 * low, 40))
    return (f"Of {count} drawn paths that move by at most their smallest RTT the least utilization is {100 * by_its_smallest:.0f} %; of "
            f"{count} that move by two to four times it, {100 * by_more:.0f} %")


# Inside QUIC libraries ----------------------------------------------------------------------------------

STACKS = ["builtin", "noq", "quinn"]
# Some of the rows above, and two flows each.
WANDERING = [("constant:48mbit", "random:30ms..50ms/10ms"), ("constant:12mbit", "random:50ms..70ms/50ms"),
             ("lte-driving", "random:40ms..60ms/20ms")]
SHARED = [("constant:12mbit", "40ms"), ("constant:100mbit", "40ms"), ("lte-driving", "40ms")]


def stacks():
    """In libraries, least and most: utilization and p95 of one flow over a base RTT that moves, beside the simulator's sender, and
    Jain's index of two flows."""
    chosen = [word for stack in STACKS for word in ("--stack", stack)]
    moved = [compare([trace], [OURS], *chosen, "--rtt", rtt, "--duration", "60s")["runs"] for trace, rtt in WANDERING]
    shared = [compare([trace], [OURS], *chosen, "--rtt", rtt, "--flows", "2", "--skip", "20s", "--duration", "60s")["runs"]
              for trace, rtt in SHARED]
    texts = []
    for at, stack in enumerate(STACKS[1:], 1):
        points = [100 * (runs[at]["utilization"] - runs[0]["utilization"]) for runs in moved]
        delays = [p95(runs[at]) - p95(runs[0]) for runs in moved]
        indices = [jain(rates(runs[at])) for runs in shared]
        texts.append(f"in {stack} {min(points):+.0f} to {max(points):+.0f} points of utilization, {min(delays):+.0f} to {max(delays):+.0f} ms "
                     f"of p95, Jain's index {min(indices):.2f} to {max(indices):.2f}")
    return "; ".join(texts)


# Beside others, over rates, RTTs and buffers ------------------------------------------------------------

def neighbours():
    """Cells within half and twice a fair share, and the least of them, by rate and RTT."""
    rows = []
    for cc in ["pace", "copa", "bbr", "bbr3", "cubic"]:
        line, all_shares = [], []
        for mbps in (5, 24, 100):
            for rtt in (20, 80):
                shares = [share_beside(cc, rival, mbps, rtt, buffer) for rival in ("cubic", "bbr", "bbr3")
                          for buffer in (0.5, 1, 5, "2MB")]
                all_shares += shares
                line.append(f"{sum(0.5 <= share <= 2 for share in shares)} / {min(shares):.2f}")
        inside = sum(0.5 <= share <= 2 for share in all_shares)
        rows.append([f"`{cc}`", *line, f"{inside} of {len(all_shares)} / {min(all_shares):.2f}"])
    return table(["", *(f"{mbps} Mbit/s, {rtt} ms" for mbps in (5, 24, 100) for rtt in (20, 80)), "all"], rows)


def share_beside(cc, rival, mbps, rtt, buffer):
    """A flow's multiple of a fair share, over two starts of the rival."""
    size = 2_000_000 if buffer == "2MB" else max(int(buffer * mbps * 1e6 / 8 * rtt / 1e3), 4500)
    shares = []
    for start, fraction in ((0, 0), (1.3, 0.3)):
        outcome = simulate(f'trace = "constant:{mbps}mbit"\nrtt = "{rtt + fraction}ms"\nqueue = "droptail:{size}B"\n'
                           f'duration = "50s"\nskip = "20s"\n{flow(cc)}{flow(rival, start_at(start))}')
        own, other = rates(outcome)
        shares.append(2 * own / max(own + other, 1e-9))
    return mean(shares)


def convergence():
    rows = []
    for low, high in STEPS:
        trace = f"step:{int(low * 1000)}kbit/{HOLDS}s,{int(high * 1000)}kbit/{HOLDS}s"
        series = {cc: run(flow(cc), trace, seconds=3 * HOLDS, skip=0, bin=f"{RTT_MS}ms")["series"] for cc in CCS}
        for change, before, after in ((HOLDS, low, high), (2 * HOLDS, high, low)):
            cells = {}
            for cc in CCS:
                trips = settles(series[cc]["throughput_mbps"], change, after)
                emptied = short_again(series[cc]["queue_delay_p95_ms"], change, max(5, 2 * PACKET_BITS / after / 1000))
                cells[cc] = f"{trips or '–'} / {emptied or '–'}", trips and trips <= 10
            rows.append((f"{before:g} to {after:g} Mbit/s", "10 / –", cells))
    return verdicts("rate", rows)


def settles(throughput, change, rate):
    """Round trips after a change from which on a second has a tenth around the new rate in every round trip, or at the
    lowest rates, where a round trip is a few packets, in every four; None if never."""
    per_rtt = rate * 1e6 / PACKET_BITS * RTT_MS / 1000
    width = 1 if per_rtt >= 10 else 4
    first, second = change * 1000 // RTT_MS, 1000 // RTT_MS
    for trips in range(HOLDS * second - second):
        ahead = throughput[first + trips:first + trips + second]
        groups = [mean(ahead[at:at + width]) for at in range(0, len(ahead) - width + 1, width)]
        if all(abs(one - rate) <= 0.1 * rate + 1e-6 for one in groups):
            return trips + 1
    return None


def short_again(delays, change, most):
    """Round trips after a change from which on the p95 of nine round trips in ten of a second is short."""
    first, second = change * 1000 // RTT_MS, 1000 // RTT_MS
    for trips in range(HOLDS * second - second):
        ahead = delays[first + trips:first + trips + second]
        if ahead[0] is not None and ahead[0] <= most and sum(one is not None and one > most for one in ahead) <= second // 10:
            return trips + 1
    return None


def of_starts(figure, holds, digits=2):
    """Mean and range over the starts; met if every run is."""
    found = [round(figure(start), digits) for start in STARTS]
    return f"{mean(found):.{digits}f} ({min(found):.{digits}f} to {max(found):.{digits}f})", all(map(holds, found))


# Beside its own kind ------------------------------------------------------------------------------------

def sharing():
    """Jain's index of what flows get in ten seconds with the longest p95 of the runs, and what a late comer gets of its share."""
    def row(name, least, flows, trace="constant:12mbit"):
        cells = {}
        for cc in CCS:
            runs = {start: run(flows(cc, start), trace, seconds=30, skip=20, start=start) for start in STARTS}
            text, met = of_starts(lambda start: jain(rates(runs[start])), lambda index: least is not None and index > least)
            cells[cc] = f"{text}, {max(map(p95, runs.values())):.0f} ms", met
        return name, f"above {least}" if least else None, cells

    def late(cc):
        def share(start):
            got = rates(run(flow(cc) + flow(cc, f'start = "{20 + start}s"'), seconds=30 + start, skip=25 + start, start=start))
            return 2 * got[1] / sum(got)

        return of_starts(share, lambda share: share >= 0.8)

    def late_in(start, *fields):
        return (*fields, f'start = "{start}s"')

    def staggered(start, count):
        return f"count = {count}", f'stagger = "{start / count:.3f}s"'

    return verdicts("flows", [
        row("two on 12 Mbit/s", None, lambda cc, start: flow(cc) + flow(cc, *late_in(start))),
        row("two on 100 Mbit/s", None, lambda cc, start: flow(cc) + flow(cc, *late_in(start)), "constant:100mbit"),
        row("twenty on 50 Mbit/s", 0.95, lambda cc, start: flow(cc, *staggered(start, 20)), "constant:50mbit"),
        row("20 and 80 ms on 12 Mbit/s", 0.8,
            lambda cc, start: flow(cc, 'rtt = "20ms"') + flow(cc, *late_in(start, 'rtt = "80ms"'))),
        *(row(f"four on {trace}", None, lambda cc, start: flow(cc, *staggered(start, 4)), trace)
          for trace in ("lte-driving", "5g-midband")),
        row("ten on 12 Mbit/s", None, lambda cc, start: flow(cc, *staggered(start, 10))),
        ("multiple of its share that a late comer has, five to ten seconds after its start", "0.8 or more",
         {cc: late(cc) for cc in CCS}),
    ])


# Beside others ------------------------------------------------------------------------------------------

BUFFERS = {"1 BDP": "60kB", "5 BDP": "300kB", "2 MB": "2MB"}


def beside():
    rows = []
    for other in ("cubic", "bbr"):
        for name, queue in BUFFERS.items():
            def share(cc):
                def of(start):
                    got = rates(run(flow(cc) + flow(other, f'start = "{start}s"'), queue=queue, start=start))
                    return 2 * got[0] / sum(got)
                return of

            # In 33 bandwidth-delay products nothing was asked of those that keep queues short.
            asked = None if (other, name) == ("cubic", "2 MB") else "0.33 to 3"
            rows.append((f"`{other}`, {name}", asked,
                         {cc: of_starts(share(cc), lambda share: 0.33 <= share <= 3) for cc in CCS}))
    return verdicts("beside", rows)


def left():
    """The longest p95 from 5 s after a rival has left, over both rivals, 1 and 5 BDP and all starts."""
    def longest(cc):
        return max(p95(run(flow(cc) + flow(other, f'start = "{start}s"', 'stop = "30s"'), queue=BUFFERS[name], skip=35, start=start))
                   for other in ("cubic", "bbr") for name in ("1 BDP", "5 BDP") for start in STARTS)

    return ", ".join(f"`{cc}` {longest(cc):.0f} ms" for cc in CCS)


# Short transfers ----------------------------------------------------------------------------------------

# How many, and from one begin to the next: each has ended before the next begins.
SIZES = {"30kB": (20, 3), "300kB": (20, 3), "3MB": (5, 12)}


def short_flows():
    rows = []
    for trace in ("constant:12mbit", "lte-driving"):
        for company in ("alone", "beside one without end"):
            for size, (count, every) in SIZES.items():
                means = {}
                for cc in CCS:
                    transfers = flow(cc, 'start = "5s"', f'transfer = {{ size = "{size}", count = {count}, every = "{every}s" }}')
                    flows = transfers if company == "alone" else flow(cc) + transfers
                    done = run(flows, trace, seconds=5 + count * every, skip=0)["per_flow"][-1]["transfers"]
                    means[cc] = done["completion_ms"]["mean"], done["complete"]
                most = means["cubic"]
                cells = {cc: (f"{time:.0f} ms" + (f" ({complete} of {count})" if complete < count else ""),
                              (round(time), -complete) <= (round(most[0]), -most[1]))
                         for cc, (time, complete) in means.items()}
                rows.append((f"{trace.removeprefix('constant:')}, {size}, {company}", "Cubic's", cells))
    return verdicts("transfers", rows)


# As a Markov table --------------------------------------------------------------------------------------

def markov():
    """Pace beside the table that learns from it on the traces on which it was chosen, on the others."""
    with tempfile.TemporaryDirectory() as folder:
        traces = [word for trace in TRAINING for word in ("--trace", f"{TRACES}/{trace}")]
        call("mdi", "train", "--cc", OURS, *traces, "--duration", "60s", "-o", "pace.mdi", cwd=folder)
        runs = compare([f"{TRACES}/{trace}" for trace in TEST], [OURS, "mdi:model=pace.mdi"], "--duration", "60s",
                       cwd=folder)["runs"]
    pairs = [(runs[at], runs[at + 1]) for at in range(0, len(runs), 2)]
    means = [f"{100 * mean(one['utilization'] for one in side):.0f} % / {mean(map(p95, side)):.0f} ms"
             for side in zip(*pairs)]
    return ", its table ".join(means)
