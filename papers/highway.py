"""Slides: TCP congestion control on the highway (2017)."""

from papers.claims import Claim, claim
from papers.figures import mbit, ms, s


@claim("PEP", "component", "component", expected="built", original={"note": "no values printed"}, tests=("g5_",))
def pep(c: Claim) -> None:
    """A transparent proxy keeps data at the edge of the radio link and controls the rate towards it, with an
    open-source proxy, Linux' stack and a controller of one's own."""


@claim(
    "PEP, what is asked of it: 1",
    "text",
    "virtual",
    expected="refuted",
    original={"note": "no values printed"},
    because="""It depends on the controller towards the radio. The slides recommend BBR for a proxy; that Copa and Verus do the
same is asked here, and it is they that fail. Behind a proxy with BBR or CUBIC 30 to 300 kB take 69 to 82 % of
the time that they take end to end, and the saving on LTE is that of the rounds that the shorter leg saves. Copa
takes 79 to 101 %. Verus begins with a window of its own and takes 1.4 to 1.9 times as long for 30 kB; from 300
kB on and with a wired leg of 80 ms it is faster as well. Beside a bulk download through the same proxy Copa and
Verus keep the queue of the radio link short, and take at most half of the time everywhere.""",
)
def pep_small(c: Claim) -> None:
    """A proxy in front of the radio link shortens the download of small objects."""
    alone_plain = c.run(
        "alone_plain",
        sweep={
            "wired": ["20ms", "40ms", "80ms"],
            "radio": ["lte-driving", "hspa-walking", "radio:highway-700"],
            "size": ["10kB", "30kB", "100kB", "300kB", "1MB"],
        },
        scenario="""duration = "300s"
skip = "0s"
bin = "1s"

[path.wired]
trace = "constant:1gbit"
rtt = "{wired}"
queue = "droptail:1MB"

[path.radio]
trace = "{radio}"
rtt = "40ms"
queue = "droptail:2MB"

[[flow]]
cc = "cubic"
transfer = { size = "{size}", count = 100, gap = "2s" }
""",
    )
    alone = c.run(
        "alone",
        sweep={
            "wired": ["20ms", "40ms", "80ms"],
            "radio": ["lte-driving", "hspa-walking", "radio:highway-700"],
            "size": ["10kB", "30kB", "100kB", "300kB", "1MB"],
            "pep": ["bbr", "copa", "verus:r=2", "cubic"],
        },
        scenario="""duration = "300s"
skip = "0s"
bin = "1s"

[path.wired]
trace = "constant:1gbit"
rtt = "{wired}"
queue = "droptail:1MB"

[path.radio]
trace = "{radio}"
rtt = "40ms"
queue = "droptail:2MB"

[pep]
cc = "{pep}"

[[flow]]
cc = "cubic"
transfer = { size = "{size}", count = 100, gap = "2s" }
""",
    )
    beside_plain = c.run(
        "beside_plain",
        sweep={
            "wired": ["40ms"],
            "radio": ["lte-driving", "hspa-walking", "radio:highway-700"],
            "size": ["30kB", "100kB", "300kB"],
        },
        scenario="""duration = "300s"
skip = "0s"
bin = "1s"

[path.wired]
trace = "constant:1gbit"
rtt = "{wired}"
queue = "droptail:1MB"

[path.radio]
trace = "{radio}"
rtt = "40ms"
queue = "droptail:2MB"

[[flow]]
cc = "cubic"

[[flow]]
cc = "cubic"
start = "5s"
transfer = { size = "{size}", count = 100, gap = "2s" }
""",
    )
    beside = c.run(
        "beside",
        sweep={
            "wired": ["40ms"],
            "radio": ["lte-driving", "hspa-walking", "radio:highway-700"],
            "size": ["30kB", "100kB", "300kB"],
            "pep": ["bbr", "copa", "verus:r=2", "cubic"],
        },
        scenario="""duration = "300s"
skip = "0s"
bin = "1s"

[path.wired]
trace = "constant:1gbit"
rtt = "{wired}"
queue = "droptail:1MB"

[path.radio]
trace = "{radio}"
rtt = "40ms"
queue = "droptail:2MB"

[pep]
cc = "{pep}"

[[flow]]
cc = "cubic"

[[flow]]
cc = "cubic"
start = "5s"
transfer = { size = "{size}", count = 100, gap = "2s" }
""",
    )
    alone.core(
        "alone, 30 to 300 kB take at most 95 % of the time behind the proxy where the wired RTT is 40 or 80 ms",
        lambda run: (
            run["transfer.completion_ms"].at(size=["30kB", "100kB", "300kB"], wired=["40ms", "80ms"]).median("transfer")
            <= 0.95
            * alone_plain["transfer.completion_ms"]
            .at(size=["30kB", "100kB", "300kB"], wired=["40ms", "80ms"])
            .median("transfer")
        ).all(),
    )
    beside.core(
        "beside a bulk download through the same proxy with Copa or Verus they take at most half of the time",
        lambda run: (
            run["transfer.completion_ms"].at(pep=["copa", "verus:r=2"]).median("transfer")
            <= 0.5 * beside_plain["transfer.completion_ms"].median("transfer")
        ).all(),
    )
    alone.full(
        "on LTE 100 kB save two rounds of the shorter leg, within 25 %",
        lambda run: (
            (
                alone_plain["transfer.completion_ms"]
                .at(size="100kB", wired=["40ms", "80ms"], radio="lte-driving")
                .median("transfer")
                - run["transfer.completion_ms"]
                .at(pep="cubic", size="100kB", wired=["40ms", "80ms"], radio="lte-driving")
                .median("transfer")
                >= 60 * ms
            ).all()
            & (
                alone_plain["transfer.completion_ms"]
                .at(size="100kB", wired=["40ms", "80ms"], radio="lte-driving")
                .median("transfer")
                - run["transfer.completion_ms"]
                .at(pep="cubic", size="100kB", wired=["40ms", "80ms"], radio="lte-driving")
                .median("transfer")
                <= 100 * ms
            ).all()
        ),
    )
    alone.chart(
        "table",
        lambda run: run["transfer.completion_ms"].at(wired="40ms", radio="lte-driving").median("transfer"),
        x="size",
        group="pep",
        caption="Median completion time on lte-driving behind a wired leg of 40 ms, each object alone.",
    )
    alone_plain.chart(
        "table",
        lambda run: run["transfer.completion_ms"].at(radio="lte-driving").median("transfer"),
        x="size",
        group="wired",
        caption="Median completion time on lte-driving without a proxy, by the RTT of the wired leg.",
    )


@claim(
    "PEP, what is asked of it: 2, 3",
    "text",
    "virtual",
    expected="refuted",
    original={"note": "no values printed"},
    because="""Goodput and RTT are as claimed on all three links. The drops at an AQM are not: CUBIC end to end loses 350 to
800 packets of 200 MB at CoDel, which is little, and no proxy loses less than 60 % of that (the best are CUBIC
itself on the highway, Copa on LTE); BBR of 2016 does not react to drops and loses ten times as many and more.
On LTE Copa has 68 % of the goodput where 75 % are asked for.""",
)
def pep_large(c: Claim) -> None:
    """Large objects keep their goodput behind the proxy, with a low self-inflicted RTT and without needless drops by
    an AQM."""
    plain = c.run(
        "plain",
        sweep={"radio": ["lte-driving", "hspa-walking", "radio:highway-700"], "queue": ["droptail:2MB", "codel"]},
        scenario="""duration = "600s"
skip = "0s"
bin = "1s"

[path.wired]
trace = "constant:1gbit"
rtt = "20ms"
queue = "droptail:1MB"

[path.radio]
trace = "{radio}"
rtt = "40ms"
queue = "{queue}"

[[flow]]
cc = "cubic"
transfer = { size = "20MB", count = 10, gap = "1s" }
""",
    )
    large = c.run(
        "large",
        sweep={
            "radio": ["lte-driving", "hspa-walking", "radio:highway-700"],
            "queue": ["droptail:2MB", "codel"],
            "pep": ["bbr", "copa", "verus:r=2", "cubic"],
        },
        scenario="""duration = "600s"
skip = "0s"
bin = "1s"

[path.wired]
trace = "constant:1gbit"
rtt = "20ms"
queue = "droptail:1MB"

[path.radio]
trace = "{radio}"
rtt = "40ms"
queue = "{queue}"

[pep]
cc = "{pep}"

[[flow]]
cc = "cubic"
transfer = { size = "20MB", count = 10, gap = "1s" }
""",
    )
    large.core(
        "goodput of BBR behind the proxy is at least 95 % of that of CUBIC end to end",
        lambda run: (
            run["transfer.goodput_mbps"].at(pep="bbr").mean("transfer")
            >= 0.95 * plain["transfer.goodput_mbps"].mean("transfer")
        ).all(),
    )
    large.core(
        "with at most half of its self-inflicted RTT where the queue is deep",
        lambda run: (
            run["transfer.self_inflicted_ms"].at(pep="bbr", queue="droptail:2MB").median("transfer")
            <= 0.5 * plain["transfer.self_inflicted_ms"].at(queue="droptail:2MB").median("transfer")
        ).all(),
    )
    large.core(
        "the best proxy loses at most 30 % of what CUBIC loses at CoDel",
        lambda run: (
            run["lost"].at(queue="codel").mean("seed", "start").min("pep")
            <= 0.3 * plain["lost"].at(queue="codel").mean("seed", "start")
        ).all(),
    )
    large.full(
        "Copa has at most a fifth of the self-inflicted RTT at 75 % of the goodput",
        lambda run: (
            (
                run["transfer.self_inflicted_ms"].at(pep="copa", queue="droptail:2MB").median("transfer")
                <= 0.2 * plain["transfer.self_inflicted_ms"].at(queue="droptail:2MB").median("transfer")
            ).all()
            & (
                run["transfer.goodput_mbps"].at(pep="copa", queue="droptail:2MB").mean("transfer")
                >= 0.75 * plain["transfer.goodput_mbps"].at(queue="droptail:2MB").mean("transfer")
            ).all()
        ),
    )
    large.chart(
        "table",
        lambda run: run["transfer.self_inflicted_ms"].at(radio="lte-driving").median("transfer"),
        x="queue",
        group="pep",
        caption="Median of the self-inflicted RTT of 20 MB on lte-driving.",
    )
    large.chart(
        "table",
        lambda run: run["transfer.goodput_mbps"].at(radio="lte-driving").mean("transfer"),
        x="queue",
        group="pep",
        caption="Mean goodput of the same.",
    )


@claim(
    "Understanding TCP CCA Performance on LTE; Conclusions",
    "text",
    "model",
    expected="refuted",
    original={"note": "no values printed"},
    because="""Not to this extent. With the jitter of HARQ HyStart does end slow start early, and 20 MB take 78 % of 50 Mbit/s
and 90 % of 40 (less in the first four seconds: highway-fig4); without HyStart it is 94 %, which is less than
1.15 times that at 40 Mbit/s. On the drives, whose mean is below 20 Mbit/s, the end of slow start hardly
matters, and CUBIC has slightly more than BBR. Westwood+ does use little: about half of either link.""",
)
def text_lowutil(c: Claim) -> None:
    """TCP CUBIC and Westwood+ use little of an LTE link; CUBIC with HyStart takes long to its largest window, and has
    a low link utilization."""
    jitter = c.run(
        "jitter",
        trace=["constant:40mbit", "constant:50mbit"],
        cc=["cubic:linux48", "cubic:linux48,hystart=off", "bbr", "westwood"],
        rtt="50ms",
        queue="droptail:2MB",
        path="jitter = 'harq:bler=10%,rtt=8ms'",
        duration="30s",
        skip="0s",
        seeds=[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        flow='transfer = { size = "20MB", handshake = true }',
    )
    clean = c.run(
        "clean",
        trace=["constant:40mbit", "constant:50mbit"],
        cc=["cubic:linux48", "cubic:linux48,hystart=off", "bbr", "westwood"],
        rtt="50ms",
        queue="droptail:2MB",
        duration="30s",
        skip="0s",
        flow='transfer = { size = "20MB", handshake = true }',
    )
    drive = c.run(
        "drive",
        trace="radio:highway-700",
        cc=["bbr", "cubic:linux48"],
        rtt="50ms",
        queue="droptail:2MB",
        duration="5400s",
        skip="0s",
        seeds=[1, 2, 3, 4],
        path='rto_rule = "linux"',
        flow='transfer = { size = "20MB", every = "30s", handshake = true }',
    )
    jitter.core(
        "downloads of 20 MB with CUBIC of 4.8 use at most 80 % of 40 Mbit/s with the jitter of HARQ",
        lambda run: (
            run["transfer.goodput_mbps"].at(cc="cubic:linux48", trace="constant:40mbit").mean()
            / (40 * mbit * 1448 / 1500)
            <= 0.8
        ),
    )
    jitter.core(
        "downloads of 20 MB with CUBIC of 4.8 use at most 80 % of 50 Mbit/s with the jitter of HARQ",
        lambda run: (
            run["transfer.goodput_mbps"].at(cc="cubic:linux48", trace="constant:50mbit").mean()
            / (50 * mbit * 1448 / 1500)
            <= 0.8
        ),
    )
    jitter.core(
        "without HyStart, and with BBR, they have 1.15 times the goodput",
        lambda run: (
            (
                run["transfer.goodput_mbps"].at(cc="cubic:linux48,hystart=off").mean("start", "seed", "transfer")
                >= 1.15 * run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean("start", "seed", "transfer")
            ).all()
            & (
                run["transfer.goodput_mbps"].at(cc="bbr").mean("start", "seed", "transfer")
                >= 1.15 * run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean("start", "seed", "transfer")
            ).all()
        ),
    )
    jitter.full(
        "those with Westwood+ use at most 80 % of 40 and of 50 Mbit/s",
        lambda run: (
            (
                run["transfer.goodput_mbps"].at(cc="westwood", trace="constant:40mbit").mean()
                / (40 * mbit * 1448 / 1500)
                <= 0.8
            )
            & (
                run["transfer.goodput_mbps"].at(cc="westwood", trace="constant:50mbit").mean()
                / (50 * mbit * 1448 / 1500)
                <= 0.8
            )
        ),
    )
    drive.full(
        "on the drives CUBIC of 4.8 has at most 0.95 of BBR's mean goodput",
        lambda run: (
            run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean()
            <= 0.95 * run["transfer.goodput_mbps"].at(cc="bbr").mean()
        ),
    )
    jitter.chart(
        "bars",
        lambda run: run["transfer.goodput_mbps"].mean("start", "seed", "transfer"),
        x="trace",
        group="cc",
        caption="Mean goodput of ten downloads of 20 MB with the jitter of HARQ.",
    )
    clean.chart(
        "bars",
        lambda run: run["transfer.goodput_mbps"].mean("start", "seed", "transfer"),
        x="trace",
        group="cc",
        caption="The same without jitter.",
    )


@claim(
    "Slides on BBR",
    "component",
    "component",
    expected="built",
    original={"note": "no values printed"},
    tests=("bbr_x1_", "bbr_x2_", "bbr_x3_", "bbr_x4_", "bbr_x5_", "bbr_x6_", "bbr_x7_", "bbr_x8_"),
)
def bbr(c: Claim) -> None:
    """BBR of Linux 4.8: startup, drain, eight phases of probing the bandwidth, probing the RTT, pacing."""


@claim(
    "Congestion Control Algorithms Compared",
    "text",
    "virtual",
    expected="reproduced",
    depends=("RTT", "buffer"),
    original={"note": "no values printed"},
    because="""By construction: the patch is what the presets differ in. The second download begins below the last maximum of
the window; in 3.19 the clock of the curve has run on for 15 s and points far above it. The idle connection
keeps its window here (Linux with tcp_slow_start_after_idle=0); as Linux comes, both restart at 10 packets. It
plays no part in the measurements of the study, whose downloads had a connection each.""",
)
def cubic_idle(c: Claim) -> None:
    """CUBIC of Linux 4.8 has a patch that keeps the growth of the window on the cubic curve after a long
    application-limited idle time, which that of 3.19 does not have."""
    idle = c.run(
        "idle",
        sweep={"cc": ["cubic:linux319,after_idle=keep", "cubic:linux48,after_idle=keep"]},
        scenario="""trace = "constant:40mbit"
rtt = "50ms"
queue = "droptail:800kB"
duration = "45s"
skip = "20s"
bin = "100ms"
[[flow]]
cc = "{cc}"
transfer = { size = ["77MB", "25MB"], count = 2, gap = "15s", connection = "keep" }
""",
        series="100ms",
    )
    idle.core(
        "within two round trips after the idle time the window of 3.19 grows by 20 % or more, that of 4.8 by less than 5 %",
        lambda run: (
            (
                run["flow.series.cwnd_packets"].at(cc="cubic:linux319,after_idle=keep", time="31.3s").max()
                >= 1.2 * run["flow.series.cwnd_packets"].at(cc="cubic:linux319,after_idle=keep", time="31s").max()
            )
            & (
                run["flow.series.cwnd_packets"].at(cc="cubic:linux48,after_idle=keep", time="31.3s").max()
                < 1.05 * run["flow.series.cwnd_packets"].at(cc="cubic:linux48,after_idle=keep", time="31s").max()
            )
        ),
    )
    idle.full(
        "3.19 loses packets of the second download, 4.8 none",
        lambda run: (
            (run["transfer.retransmitted"].at(cc="cubic:linux319,after_idle=keep", transfer="1").min() > 0)
            & (run["transfer.retransmitted"].at(cc="cubic:linux48,after_idle=keep", transfer="1").max() == 0)
        ),
    )
    idle.chart(
        "lines",
        lambda run: run["flow.series.cwnd_packets"],
        x="time",
        group="cc",
        caption="Congestion window: a download of 77 MB, 15 s of idle time, one of 25 MB over the same connection.",
    )


@claim(
    "Measurement campaign",
    "text",
    "field",
    expected="not testable here",
    because="""It needs a car, a phone and the network of 2016, and nothing of it was published as data. What stands in for it
is four drives of 1.5 h through the radio layer highway-700, in which every controller meets the same radio.""",
)
def campaign(c: Claim) -> None:
    """720 downloads of 20 MB, 15 GB in all, over 410 miles of interstate in two days."""


@claim(
    "Measurement campaign",
    "text",
    "field",
    expected="not testable here",
    because="""It says how the network was measured. In a model `trace make radio:highway-700 --radio FILE` writes the series
that a drive-test tool would (RSRP, SINR, CQI, modulation, cell), and packet logs of `compare`, `sim` and `link`
stand for tcpdump.""",
)
def tools(c: Claim) -> None:
    """A drive-test tool (Qualipoc) and tcpdump recorded radio and packets."""


@claim(
    "Measurement campaign",
    "text",
    "field",
    expected="not testable here",
    because="""It is a setting of a phone. The radio layer highway-700 has its frequency (751 MHz), its bandwidth (9 MHz
occupied) and the rate that the slides give as its most (50 Mbit/s); what else the band was like on that road is
not known.""",
)
def band13(c: Claim) -> None:
    """The phone was locked to LTE band 13: 10 MHz at 746 to 756 MHz."""


@claim(
    "Radio Condition (SINR) on Highway",
    "figure",
    "field",
    expected="not testable here",
    because="""The chart is of one road and has no values to compare with. The radio layer highway-700 has, over 6 h in four
drives, a 5th percentile of -0.1 dB and a median of 17.2 dB, 43 % of the time above 20 dB and 29 % from 10 to 20
dB. That is a choice of ours (distance between masts, powers, shadowing), not evidence.""",
)
def fig1(c: Claim) -> None:
    """The distribution of the SINR along the drive; later slides speak of more than 20 dB and of 10 to 20 dB."""


@claim(
    "Modulation / Rate Adaption",
    "figure",
    "model",
    expected="reproduced",
    original={"ceilings_mbps": [17, 25, 50], "tcp_mbps": "45 to 50 at most", "note": "no values of the shares printed"},
    because="""By construction: the radio layer has the table of CQIs, and its peak rate is that of the slide. What it adds is
only that the rate of a second, with retransmissions, fading and other users in it, stays below the ceiling. The
shares on the road are not known, as the slide prints none.""",
)
def fig2(c: Claim) -> None:
    """Shares of QPSK, 16QAM and 64QAM on the highway; the theoretical rates of the physical layer are 17, 25 and 50
    Mbit/s."""
    radio = c.run(
        "radio",
        trace="radio:highway-700",
        cc="cubic",
        duration="5400s",
        seeds=[1, 2, 3, 4],
        analysis="radio",
    )
    radio.core(
        "no second with QPSK alone exceeds 17 Mbit/s, none without 64QAM 25 Mbit/s",
        lambda run: (run["radio.max_qpsk_mbps"].max() <= 17 * mbit) & (run["radio.max_16qam_mbps"].max() <= 25 * mbit),
    )
    radio.core(
        "all three modulations take part, and 64QAM more than QPSK",
        lambda run: (
            (run["radio.share_16qam"].min() > 0)
            & (run["radio.share_qpsk"].min() > 0)
            & (run["radio.share_64qam"].mean() > run["radio.share_qpsk"].mean())
        ),
    )
    radio.full(
        "calibration: the best second of each drive has 45 to 50 Mbit/s",
        lambda run: (run["radio.max_mbps"].min() >= 45 * mbit) & (run["radio.max_mbps"].max() <= 50 * mbit),
    )
    radio.chart(
        "bars",
        lambda run: run["radio.share_qpsk"].mean("trace", "cc", "start"),
        x="seed",
        caption="Share of the time with QPSK in four drives of 1.5 h.",
    )
    radio.chart(
        "bars",
        lambda run: run["radio.share_16qam"].mean("trace", "cc", "start"),
        x="seed",
        caption="The same with 16QAM.",
    )
    radio.chart(
        "bars",
        lambda run: run["radio.share_64qam"].mean("trace", "cc", "start"),
        x="seed",
        caption="The same with 64QAM.",
    )


@claim(
    "Modulation / Rate Adaption",
    "text",
    "virtual",
    expected="in part",
    depends=("RTT",),
    original={"ceilings_mbps": [17, 25, 50], "note": "no values of delay or loss printed"},
    because="""The drop does what the slide says: BBR's maximum filter keeps the old bandwidth for ten round trips, the window
of twice the old bandwidth-delay product waits (254 ms instead of less than 1 ms), and CoDel drops of it. It
takes longer to go than ten round trips: of the 17 Mbit/s that are then right, a standing queue of 42 ms remains
in the fifth second, as a window of twice the bandwidth-delay product allows.""",
)
def ratedrop(c: Claim) -> None:
    """Changes of the modulation change the rate, which misleads estimates of the bandwidth such as BBR's; a sudden
    drop raises the queue and makes the eNodeB's AQM drop."""
    drop = c.run(
        "drop",
        trace="step:50mbit/5s,17mbit/5s",
        cc=["bbr", "cubic:linux48", "verus:r=2", "copa"],
        queue=["droptail:2MB", "codel", "pie"],
        rtt="50ms",
        duration="60s",
        skip="10s",
        series="1s",
    )
    steady = c.run(
        "steady",
        trace=["constant:50mbit", "constant:17mbit"],
        cc="bbr",
        queue="codel",
        rtt="50ms",
        duration="60s",
        skip="10s",
    )
    drop.core(
        "BBR's median queue in the second after a drop is at least three times that of the second before",
        lambda run: (
            run["series.queue_delay_p50_ms"]
            .at(cc="bbr", queue="droptail:2MB", time=["15s", "25s", "35s", "45s", "55s"])
            .mean()
            >= 3
            * run["series.queue_delay_p50_ms"]
            .at(cc="bbr", queue="droptail:2MB", time=["14s", "24s", "34s", "44s", "54s"])
            .mean()
        ),
    )
    drop.core(
        "with CoDel BBR loses packets, and none where the rate stays",
        lambda run: (run["lost"].at(cc="bbr", queue="codel").mean() >= 1) & (steady["lost"].max() == 0),
    )
    drop.full(
        "in the fifth second after a drop, ten round trips of 0.3 s later, BBR's queue is back within 1.5 times that of the second before it, or 5 ms",
        lambda run: (
            run["series.queue_delay_p50_ms"]
            .at(cc="bbr", queue="droptail:2MB", time=["19s", "29s", "39s", "49s", "59s"])
            .mean()
            <= 1.5
            * run["series.queue_delay_p50_ms"]
            .at(cc="bbr", queue="droptail:2MB", time=["14s", "24s", "34s", "44s", "54s"])
            .mean()
            + 5 * ms
        ),
    )
    drop.full(
        "the queue of Verus and of Copa in that second is shorter than BBR's",
        lambda run: (
            run["series.queue_delay_p50_ms"]
            .at(cc=["verus:r=2", "copa"], queue="droptail:2MB", time=["15s", "25s", "35s", "45s", "55s"])
            .mean("time")
            <= run["series.queue_delay_p50_ms"]
            .at(cc="bbr", queue="droptail:2MB", time=["15s", "25s", "35s", "45s", "55s"])
            .mean()
        ).all(),
    )
    drop.chart(
        "lines",
        lambda run: run["series.queue_delay_p50_ms"].at(queue="droptail:2MB"),
        x="time",
        group="cc",
        caption="Median queue delay of each second, drop-tail; the rate falls from 50 to 17 Mbit/s at 5, 15, ..., 55 s.",
    )
    drop.chart(
        "table", lambda run: run["lost"].mean("start", "seed"), x="queue", group="cc", caption="Packets lost in 60 s."
    )


@claim(
    "BBR Case Study",
    "figure",
    "model",
    expected="refuted",
    original={"note": "two downloads over time; no values printed"},
    because="""Half of it. At 10 to 20 dB, where 20 MB last long enough to fill the queue, BBR's RTT is 158 ms against CUBIC's
535, and its window a seventh. Above 20 dB CUBIC's RTT is low as well (109 ms, BBR's 99): HyStart ends slow
start early, and the download is over before the curve rises. There BBR is no better in the model than CUBIC.
RTTs are means over each download, start-up included, which overshoots by design.""",
)
def fig3(c: Claim) -> None:
    """At a SINR above 20 dB, and at 10 to 20 dB, BBR holds a small window and a low RTT."""
    drive = c.run(
        "drive",
        trace="radio:highway-700",
        cc=["bbr", "cubic:linux48"],
        rtt="50ms",
        queue="droptail:2MB",
        duration="5400s",
        skip="0s",
        seeds=[1, 2, 3, 4],
        path='rto_rule = "linux"',
        flow='transfer = { size = "20MB", every = "30s", handshake = true }',
    )
    drive.core(
        "at above 20 dB the median of BBR's RTTs is at most 0.6 of CUBIC's (4.8)",
        lambda run: (
            run["transfer.mean_rtt_ms"].at(cc="bbr", sinr_db="20..90").median()
            <= 0.6 * run["transfer.mean_rtt_ms"].at(cc="cubic:linux48", sinr_db="20..90").median()
        ),
    )
    drive.core(
        "so is that of its largest windows",
        lambda run: (
            run["transfer.largest_window_packets"].at(cc="bbr", sinr_db="20..90").median()
            <= 0.6 * run["transfer.largest_window_packets"].at(cc="cubic:linux48", sinr_db="20..90").median()
        ),
    )
    drive.full(
        "at above 20 dB BBR's RTT is at most twice that of the handshake in the median",
        lambda run: (
            (
                run["transfer.mean_rtt_ms"].at(cc="bbr", sinr_db="20..90")
                / run["transfer.handshake_rtt_ms"].at(cc="bbr", sinr_db="20..90")
            ).median()
            <= 2
        ),
    )
    drive.core(
        "at 10 to 20 dB the median of BBR's RTTs is at most 0.6 of CUBIC's (4.8)",
        lambda run: (
            run["transfer.mean_rtt_ms"].at(cc="bbr", sinr_db="10..20").median()
            <= 0.6 * run["transfer.mean_rtt_ms"].at(cc="cubic:linux48", sinr_db="10..20").median()
        ),
    )
    drive.core(
        "so is that of its largest windows",
        lambda run: (
            run["transfer.largest_window_packets"].at(cc="bbr", sinr_db="10..20").median()
            <= 0.6 * run["transfer.largest_window_packets"].at(cc="cubic:linux48", sinr_db="10..20").median()
        ),
    )
    drive.full(
        "at 10 to 20 dB BBR's RTT is at most twice that of the handshake in the median",
        lambda run: (
            (
                run["transfer.mean_rtt_ms"].at(cc="bbr", sinr_db="10..20")
                / run["transfer.handshake_rtt_ms"].at(cc="bbr", sinr_db="10..20")
            ).median()
            <= 2
        ),
    )
    drive.chart(
        "scatter",
        lambda run: run["transfer.mean_rtt_ms"].at(cc=["bbr", "cubic:linux48"]),
        x=lambda run: run["transfer.mean_sinr_db"].at(cc=["bbr", "cubic:linux48"]),
        group="cc",
        caption="Mean RTT of each of the 720 downloads over the mean SINR (dB) of its time.",
    )
    drive.chart(
        "scatter",
        lambda run: run["transfer.largest_window_packets"].at(cc=["bbr", "cubic:linux48"]),
        x=lambda run: run["transfer.mean_sinr_db"].at(cc=["bbr", "cubic:linux48"]),
        group="cc",
        caption="Largest window of each download over its mean SINR (dB).",
    )


@claim(
    "CUBIC (4.8) Case Study",
    "figure",
    "model",
    expected="in part",
    expected_quick="refuted",
    because="""Half of the time. At 40 Mbit/s with the jitter of HARQ HyStart ends slow start far too early in five of ten
seeds, which then use 33 to 44 % of the link in the first four seconds; in the others it ends where it should,
and 88 to 95 % are used. Without HyStart it is 95 % always. At 25 Mbit/s the mean is 83 %, within the
noise of the 80 %. Seed 1, which a quick run takes, is one of the good ones.""",
)
def fig4(c: Claim) -> None:
    """CUBIC takes 4 s to its largest window and uses little of the link meanwhile, because HyStart ends slow start
    early on a link whose RTT varies."""
    c.run(
        "clean",
        trace=["constant:25mbit", "constant:40mbit"],
        cc=["cubic", "cubic:hystart=delay", "cubic:hystart=off"],
        rtt="50ms",
        duration="4s",
        skip="0s",
    )
    jitter = c.run(
        "jitter",
        trace=["constant:25mbit", "constant:40mbit"],
        cc=["cubic", "cubic:hystart=delay", "cubic:hystart=off"],
        rtt="50ms",
        path="jitter = 'harq:bler=10%,rtt=8ms'",
        duration="4s",
        skip="0s",
        seeds=[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    )
    jitter.core(
        "with HyStart the first 4 s use at most 80 % of 40 Mbit/s",
        lambda run: run["utilization"].at(cc="cubic", trace="constant:40mbit").mean() <= 0.8,
    )
    jitter.core(
        "without HyStart they use more",
        lambda run: (
            run["utilization"].at(cc="cubic:hystart=off").mean("seed") > run["utilization"].at(cc="cubic").mean("seed")
        ).all(),
    )
    jitter.core(
        "the same at 25 Mbit/s", lambda run: run["utilization"].at(cc="cubic", trace="constant:25mbit").mean() <= 0.8
    )
    jitter.unmeasured("with HyStart it takes 2 s or more to 90 % of the largest window, without it 1 s at most")
    jitter.chart(
        "bars",
        lambda run: run["utilization"].mean("seed"),
        x="trace",
        group="cc",
        caption="Share of the link that is used in the first 4 s.",
    )


@claim(
    "Ping RTT vs TCP initial RTT",
    "figure",
    "model",
    expected="in part",
    original={"range_ms": [40, 100]},
    because="""As to the range, in a model. On a link without a download 97 % of the pings take 40 to 100 ms, and 83 % (+- 3) of the
handshakes of a download every 30 s; the others meet what is left of the download before, which is what sets the two
distributions apart here. Beside a download, in its queue, 54 % of the pings do. How an operator handles ICMP is in no model.
A phone that nothing keeps awake waits for its radio at most handshakes: with LTE's idle state 24 % (+- 4) of them do.""",
)
def fig5(c: Claim) -> None:
    """RTTs of pings and of TCP handshakes are 40 to 100 ms and distributed differently; ICMP and TCP may be handled
    differently."""
    pings = c.run(
        "pings",
        inferred="pings are there to measure the propagation round trip time, so that no download fills the queue",
        decides=True,
        trace="radio:highway-700",
        seeds=[1, 2, 3, 4, 5],
        scenario="""trace = "{trace}"
rtt = "50ms"
queue = "droptail:2MB"
duration = "1800s"
skip = "0s"
[[ping]]
every = "1s"
[[flow]]
cc = "cubic:linux48"
transfer = { size = "1kB", count = 1 }
""",
    )
    downloads = c.run(
        "downloads",
        inferred="downloads of 20 MB from the phone, which pings keep awake: 40 to 100 ms leave no room for the radio to wake up",
        decides=True,
        trace="radio:highway-700",
        seeds=[1, 2, 3, 4, 5],
        scenario="""trace = "{trace}"
rtt = "50ms"
queue = "droptail:2MB"
duration = "1800s"
skip = "0s"
[[ping]]
every = "1s"
[[flow]]
cc = "cubic:linux48"
transfer = { size = "20MB", every = "30s", handshake = true }
""",
    )
    loaded = c.run("loaded", beside=True, **downloads.asked)
    idle = c.run(
        "idle",
        beside=True,
        trace="radio:highway-700",
        seeds=[1, 2, 3, 4, 5],
        scenario="""trace = "{trace}"
rtt = "50ms"
queue = "droptail:2MB"
rrc = "lte"
duration = "1800s"
skip = "0s"
[[flow]]
cc = "cubic:linux48"
transfer = { size = "20MB", every = "30s", handshake = true }
""",
    )
    pings.core(
        "80 % of the pings take 40 to 100 ms",
        lambda run: ((run["ping.rtt_ms"] >= 40 * ms) & (run["ping.rtt_ms"] <= 100 * ms)).share() >= 0.8,
    )
    downloads.core(
        "so do 80 % of the handshakes",
        lambda run: (
            (run["transfer.handshake_rtt_ms"] >= 40 * ms) & (run["transfer.handshake_rtt_ms"] <= 100 * ms)
        ).share()
        >= 0.8,
    )
    downloads.full(
        "their 90th percentiles are 10 % apart",
        lambda run: (
            abs(run["transfer.handshake_rtt_ms"].percentile(90) - pings["ping.rtt_ms"].percentile(90))
            >= 0.1 * pings["ping.rtt_ms"].percentile(90)
        ),
    )
    downloads.unmeasured("an operator handles ICMP and TCP differently")
    loaded.core(
        "so do 80 % of the pings beside downloads",
        lambda run: ((run["ping.rtt_ms"] >= 40 * ms) & (run["ping.rtt_ms"] <= 100 * ms)).share() >= 0.8,
    )
    idle.core(
        "so do 80 % of the handshakes of a phone that no ping keeps awake",
        lambda run: (
            (run["transfer.handshake_rtt_ms"] >= 40 * ms) & (run["transfer.handshake_rtt_ms"] <= 100 * ms)
        ).share()
        >= 0.8,
    )
    pings.chart("cdf", lambda run: run["ping.rtt_ms"], caption="RTT of pings every second without a download.")
    downloads.chart(
        "cdf", lambda run: run["transfer.handshake_rtt_ms"], caption="RTT of handshakes of a download every 30 s."
    )
    downloads.chart(
        "cdf", lambda run: run["ping.rtt_ms"], caption="RTT of pings every second beside downloads, whose queue they wait in."
    )


@claim(
    "Compare Throughputs of CCAs on Highway, table",
    "table",
    "model",
    expected="in part",
    headline="BBR has the throughput of CUBIC on a highway",
    original={
        "bbr_mbps": {"mean": 14.1, "sd": 9.5, "median": 11.6},
        "cubic_319_mbps": {"mean": 14.0, "sd": 8.4, "median": 11.6},
        "cubic_48_mbps": {"mean": 13.0, "sd": 7.8, "median": 11.1},
        "note": "a server for each controller, asked in turn; ours are 720 downloads of every controller "
        "on the same four drives of 1.5 h",
    },
    because="""Comparable it is, in every set-up: on the same drives BBR has 13.3 ± 10.1 Mbit/s (median 9.8) and both CUBICs
13.7 ± 9.8 (10.3), so that BBR is 3 % behind where the table has it 8 % ahead. With 240 downloads each and such
deviations the table's difference is no more than chance. The two CUBICs differ in nothing that a download over
a connection of its own could show, so that their difference in the table is one of chance or of what else
differs between the kernels. The mean of 14 Mbit/s is put in: other users of the cell were chosen for it.""",
)
def table1(c: Claim) -> None:
    """BBR yields comparable throughput with CUBICs on highway: 14.1 (BBR), 14.0 (CUBIC of Linux 3.19) and 13.0 Mbit/s
    (4.8) on average."""
    drive = c.run(
        "drive",
        trace="radio:highway-700",
        cc=["bbr", "cubic:linux48", "cubic:linux319"],
        rtt="50ms",
        queue="droptail:2MB",
        duration="5400s",
        skip="0s",
        seeds=[1, 2, 3, 4],
        path='rto_rule = "linux"',
        flow='transfer = { size = "20MB", every = "30s", handshake = true }',
    )
    in_turn = c.run(
        "in_turn",
        trace="radio:highway-700",
        seeds=[1, 2, 3, 4],
        scenario="""trace = "{trace}"
rtt = "50ms"
queue = "droptail:2MB"
duration = "5400s"
skip = "0s"
rto_rule = "linux"
[[flow]]
cc = "bbr"
transfer = { size = "20MB", every = "90s", handshake = true }
[[flow]]
cc = "cubic:linux48"
start = "30s"
transfer = { size = "20MB", every = "90s", handshake = true }
[[flow]]
cc = "cubic:linux319"
start = "60s"
transfer = { size = "20MB", every = "90s", handshake = true }
""",
    )
    traces = c.run(
        "traces",
        trace=["highway-3g", "att-lte-driving", "lte-driving"],
        cc=["bbr", "cubic:linux48", "cubic:linux319"],
        rtt="50ms",
        queue="droptail:2MB",
        duration="120s",
        skip="0s",
        starts=30,
        path='rto_rule = "linux"',
        flow='transfer = { size = "20MB", handshake = true }',
    )
    drive.core(
        "on the drives BBR's mean goodput is 0.85 to 1.25 times that of CUBIC of 4.8",
        lambda run: (
            (
                run["transfer.goodput_mbps"].at(cc="bbr").mean()
                / run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean()
                >= 0.85
            )
            & (
                run["transfer.goodput_mbps"].at(cc="bbr").mean()
                / run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean()
                <= 1.25
            )
        ),
    )
    drive.core(
        "so are the medians",
        lambda run: (
            (
                run["transfer.goodput_mbps"].at(cc="bbr").median()
                / run["transfer.goodput_mbps"].at(cc="cubic:linux48").median()
                >= 0.85
            )
            & (
                run["transfer.goodput_mbps"].at(cc="bbr").median()
                / run["transfer.goodput_mbps"].at(cc="cubic:linux48").median()
                <= 1.25
            )
        ),
    )
    traces.core(
        "on three recorded traces BBR's mean goodput is 0.85 to 1.25 times that of CUBIC of 4.8",
        lambda run: (
            (
                run["transfer.goodput_mbps"].at(cc="bbr").mean()
                / run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean()
                >= 0.85
            )
            & (
                run["transfer.goodput_mbps"].at(cc="bbr").mean()
                / run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean()
                <= 1.25
            )
        ),
    )
    traces.core(
        "so are the medians",
        lambda run: (
            (
                run["transfer.goodput_mbps"].at(cc="bbr").median()
                / run["transfer.goodput_mbps"].at(cc="cubic:linux48").median()
                >= 0.85
            )
            & (
                run["transfer.goodput_mbps"].at(cc="bbr").median()
                / run["transfer.goodput_mbps"].at(cc="cubic:linux48").median()
                <= 1.25
            )
        ),
    )
    drive.full(
        "BBR's mean on the drives is 1.0 to 1.15 times that of CUBIC of 4.8",
        lambda run: (
            (
                run["transfer.goodput_mbps"].at(cc="bbr").mean()
                / run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean()
                >= 1
            )
            & (
                run["transfer.goodput_mbps"].at(cc="bbr").mean()
                / run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean()
                <= 1.15
            )
        ),
    )
    drive.full(
        "CUBIC of 3.19 has 0.95 to 1.12 times the goodput of that of 4.8",
        lambda run: (
            (
                run["transfer.goodput_mbps"].at(cc="cubic:linux319").mean()
                / run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean()
                >= 0.95
            )
            & (
                run["transfer.goodput_mbps"].at(cc="cubic:linux319").mean()
                / run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean()
                <= 1.12
            )
        ),
    )
    drive.full(
        "calibration: mean of CUBIC of 4.8 14 ± 3, deviation 8.5 ± 2.5, median 11.5 ± 2.5 Mbit/s",
        lambda run: (
            (abs(run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean() - 14 * mbit) <= 3 * mbit)
            & (abs(run["transfer.goodput_mbps"].at(cc="cubic:linux48").deviation() - 8.5 * mbit) <= 2.5 * mbit)
            & (abs(run["transfer.goodput_mbps"].at(cc="cubic:linux48").median() - 11.5 * mbit) <= 2.5 * mbit)
        ),
    )
    in_turn.full(
        "in turn, as on the road, the means are as close as that, too",
        lambda run: (
            (
                run["transfer.goodput_mbps"].at(cc="bbr").mean()
                / run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean()
                >= 0.85
            )
            & (
                run["transfer.goodput_mbps"].at(cc="bbr").mean()
                / run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean()
                <= 1.25
            )
        ),
    )
    drive.chart(
        "table",
        lambda run: run["transfer.goodput_mbps"].mean("trace", "start", "transfer"),
        x="seed",
        group="cc",
        caption="Mean goodput of 180 downloads of 20 MB in each of four drives.",
    )
    drive.chart(
        "cdf", lambda run: run["transfer.goodput_mbps"], group="cc", caption="Goodput of 720 downloads of 20 MB."
    )
    traces.chart(
        "table",
        lambda run: run["transfer.goodput_mbps"].mean("start", "seed", "transfer"),
        x="trace",
        group="cc",
        caption="Mean goodput of downloads of 20 MB from 30 starts on recorded traces.",
    )


@claim(
    "Throughputs under Different SINR",
    "figure",
    "model",
    expected="in part",
    original={"note": "bars without printed values"},
    because="""BBR is within a sixth of CUBIC in each class, but below 10 dB it has 0.93 of it, not more. That throughput rises
with the SINR is put in.""",
)
def fig6(c: Claim) -> None:
    """Throughput rises with the SINR for all controllers, and BBR's is comparable with that of CUBICs in every class."""
    drive = c.run(
        "drive",
        trace="radio:highway-700",
        cc=["bbr", "cubic:linux48", "cubic:linux319"],
        rtt="50ms",
        queue="droptail:2MB",
        duration="5400s",
        skip="0s",
        seeds=[1, 2, 3, 4],
        path='rto_rule = "linux"',
        flow='transfer = { size = "20MB", every = "30s", handshake = true }',
    )
    drive.core(
        "by construction: for every controller each class has 1.3 times the mean goodput of the one below it",
        lambda run: (
            (
                run["transfer.goodput_mbps"].at(sinr_db="10..20").mean("trace", "start", "seed", "transfer")
                >= 1.3 * run["transfer.goodput_mbps"].at(sinr_db="-90..10").mean("trace", "start", "seed", "transfer")
            ).all()
            & (
                run["transfer.goodput_mbps"].at(sinr_db="20..90").mean("trace", "start", "seed", "transfer")
                >= 1.3 * run["transfer.goodput_mbps"].at(sinr_db="10..20").mean("trace", "start", "seed", "transfer")
            ).all()
        ),
    )
    drive.core(
        "below 10 dB BBR's mean is within 25 % of that of CUBIC of 4.8",
        lambda run: (
            abs(
                run["transfer.goodput_mbps"].at(sinr_db="-90..10", cc="bbr").mean("trace", "start", "seed", "transfer")
                / run["transfer.goodput_mbps"]
                .at(sinr_db="-90..10", cc="cubic:linux48")
                .mean("trace", "start", "seed", "transfer")
                - 1
            )
            <= 0.25
        ),
    )
    drive.core(
        "at 10 to 20 dB BBR's mean is within 25 % of that of CUBIC of 4.8",
        lambda run: (
            abs(
                run["transfer.goodput_mbps"].at(sinr_db="10..20", cc="bbr").mean("trace", "start", "seed", "transfer")
                / run["transfer.goodput_mbps"]
                .at(sinr_db="10..20", cc="cubic:linux48")
                .mean("trace", "start", "seed", "transfer")
                - 1
            )
            <= 0.25
        ),
    )
    drive.core(
        "above 20 dB BBR's mean is within 25 % of that of CUBIC of 4.8",
        lambda run: (
            abs(
                run["transfer.goodput_mbps"].at(sinr_db="20..90", cc="bbr").mean("trace", "start", "seed", "transfer")
                / run["transfer.goodput_mbps"]
                .at(sinr_db="20..90", cc="cubic:linux48")
                .mean("trace", "start", "seed", "transfer")
                - 1
            )
            <= 0.25
        ),
    )
    drive.full(
        "below 10 dB BBR has at least as much",
        lambda run: (
            run["transfer.goodput_mbps"].at(sinr_db="-90..10", cc="bbr").mean("trace", "start", "seed", "transfer")
            >= run["transfer.goodput_mbps"]
            .at(sinr_db="-90..10", cc="cubic:linux48")
            .mean("trace", "start", "seed", "transfer")
        ),
    )
    drive.chart(
        "bars",
        lambda run: run["transfer.goodput_mbps"].at(sinr_db="-90..10").mean("trace", "start", "seed", "transfer"),
        x="cc",
        caption="Mean goodput of the downloads whose mean SINR is below 10 dB.",
    )
    drive.chart(
        "bars",
        lambda run: run["transfer.goodput_mbps"].at(sinr_db="10..20").mean("trace", "start", "seed", "transfer"),
        x="cc",
        caption="Mean goodput of the downloads whose mean SINR is 10 to 20 dB.",
    )
    drive.chart(
        "bars",
        lambda run: run["transfer.goodput_mbps"].at(sinr_db="20..90").mean("trace", "start", "seed", "transfer"),
        x="cc",
        caption="Mean goodput of the downloads whose mean SINR is above 20 dB.",
    )
    drive.chart(
        "scatter",
        lambda run: run["transfer.goodput_mbps"].at(cc=["bbr", "cubic:linux48"]),
        x=lambda run: run["transfer.mean_sinr_db"].at(cc=["bbr", "cubic:linux48"]),
        group="cc",
        caption="Goodput of each download over its mean SINR (dB).",
    )


@claim(
    "Hand-over Between eNodeBs, number of cells",
    "figure",
    "model",
    expected="in part",
    original={
        "without_handover": "65 % and more",
        "lost_connections": 1,
        "note": "a complementary distribution of the number of cells without printed values",
    },
    because="""Calibration, not evidence: the distance between masts was chosen so that two of five downloads of 20 MB see a
handover. 59 % have one cell, which is less than the 65 % of the slide, since a slow download lasts longer and
sees more. That no connection is lost follows from the choice that links seldom fail, and then for a second at
most.""",
)
def fig7(c: Claim) -> None:
    """65 % and more of the downloads have no handover, and only one of 720 connections was lost; cells have radii up
    to 4 km, and the car does 30 m/s."""
    drive = c.run(
        "drive",
        trace="radio:highway-700",
        cc=["bbr", "cubic:linux48", "cubic:linux319"],
        rtt="50ms",
        queue="droptail:2MB",
        duration="5400s",
        skip="0s",
        seeds=[1, 2, 3, 4],
        path='rto_rule = "linux"',
        flow='transfer = { size = "20MB", every = "30s", handshake = true }',
    )
    drive.core(
        "calibration: 55 to 80 % of the downloads have one cell",
        lambda run: (
            ((run["transfer.cells"].at(cc="cubic:linux48") == 1).share() >= 0.55)
            & ((run["transfer.cells"].at(cc="cubic:linux48") == 1).share() <= 0.8)
        ),
    )
    drive.full(
        "calibration: 65 to 75 %",
        lambda run: (
            ((run["transfer.cells"].at(cc="cubic:linux48") == 1).share() >= 0.65)
            & ((run["transfer.cells"].at(cc="cubic:linux48") == 1).share() <= 0.75)
        ),
    )
    drive.full(
        "connections that lost their network (five timeouts or more) are at most 5 of 720, and every download but those at the end of a drive is complete",
        lambda run: (
            ((run["transfer.timeouts"].at(cc="cubic:linux48") >= 5).count() <= 5)
            & (run["flow.transfers.complete"].at(cc="cubic:linux48").sum() >= 716)
        ),
    )
    drive.chart(
        "cdf", lambda run: run["transfer.cells"], group="cc", caption="Number of cells of each of 720 downloads."
    )


@claim(
    "Hand-over Between eNodeBs, throughput",
    "figure",
    "model",
    expected="in part",
    original={"note": "bars without printed values"},
    because="""The correlation is there: downloads with two handovers or more have less than a third of the goodput of those
with none. It is not the handovers: without their interruptions the same downloads on the same drives gain less
than 1 %. Handovers happen at the edge of a cell, where the radio is poor, and a slow download lasts long enough
to see several. Only where a handover loses the queue does it cost: CUBIC 11 % of its goodput in those
downloads, BBR 7 %.""",
)
def fig8(c: Claim) -> None:
    """On average several handovers lower the throughput; long-lived video flows would be victims of handovers."""
    handovers = c.run(
        "handovers",
        trace=[
            "radio:highway-700",
            "radio:highway-700,interruption=0ms,interruption_min=0ms,interruption_sd=0ms,forward_delay=0ms",
            "radio:highway-700,buffer=lose",
        ],
        cc=["bbr", "cubic:linux48"],
        rtt="50ms",
        queue="droptail:2MB",
        duration="5400s",
        skip="0s",
        seeds=[1, 2, 3],
        path='rto_rule = "linux"',
        flow='transfer = { size = "20MB", every = "30s", handshake = true }',
    )
    handovers.core(
        "for both controllers downloads with two handovers or more have at most 0.85 of the mean goodput of those with none",
        lambda run: (
            run["transfer.goodput_mbps"]
            .at(trace="radio:highway-700", handovers="2..99")
            .mean("start", "seed", "transfer")
            <= 0.85
            * run["transfer.goodput_mbps"]
            .at(trace="radio:highway-700", handovers="0")
            .mean("start", "seed", "transfer")
        ).all(),
    )
    handovers.full(
        "BBR: where handovers interrupt nothing, the same downloads with two handovers or more have at least 1.05 times the goodput",
        lambda run: (
            (
                run["transfer.goodput_mbps"].at(
                    trace="radio:highway-700,interruption=0ms,interruption_min=0ms,interruption_sd=0ms,forward_delay=0ms",
                    cc="bbr",
                )
                / run["transfer.goodput_mbps"].at(trace="radio:highway-700", cc="bbr", handovers="2..99")
            ).mean()
            >= 1.05
        ),
    )
    handovers.full(
        "CUBIC of 4.8: where handovers interrupt nothing, the same downloads with two handovers or more have at least 1.05 times the goodput",
        lambda run: (
            (
                run["transfer.goodput_mbps"].at(
                    trace="radio:highway-700,interruption=0ms,interruption_min=0ms,interruption_sd=0ms,forward_delay=0ms",
                    cc="cubic:linux48",
                )
                / run["transfer.goodput_mbps"].at(trace="radio:highway-700", cc="cubic:linux48", handovers="2..99")
            ).mean()
            >= 1.05
        ),
    )
    handovers.full(
        "where the queue is lost in each handover, CUBIC loses more of its goodput than BBR",
        lambda run: (
            run["transfer.goodput_mbps"].at(trace="radio:highway-700,buffer=lose", cc="cubic:linux48").mean()
            / run["transfer.goodput_mbps"].at(trace="radio:highway-700", cc="cubic:linux48").mean()
            < run["transfer.goodput_mbps"].at(trace="radio:highway-700,buffer=lose", cc="bbr").mean()
            / run["transfer.goodput_mbps"].at(trace="radio:highway-700", cc="bbr").mean()
        ),
    )
    handovers.chart(
        "bars",
        lambda run: run["transfer.goodput_mbps"].at(handovers="0").mean("start", "seed", "transfer"),
        x="trace",
        group="cc",
        caption="Mean goodput of downloads without a handover: the radio layer, with handovers that interrupt nothing, with handovers that lose the queue.",
    )
    handovers.chart(
        "bars",
        lambda run: run["transfer.goodput_mbps"].at(handovers="1").mean("start", "seed", "transfer"),
        x="trace",
        group="cc",
        caption="The same with one handover.",
    )
    handovers.chart(
        "bars",
        lambda run: run["transfer.goodput_mbps"].at(handovers="2..99").mean("start", "seed", "transfer"),
        x="trace",
        group="cc",
        caption="The same with two or more.",
    )


@claim(
    "RTO and Retransmissions",
    "figure",
    "model",
    expected="in part",
    original={"note": "two distributions without printed values"},
    because="""In a deep queue: BBR sends hardly anything again (2 % with CUBIC), and its RTO is 297 ms against 408. Behind
CoDel, which the slides suspect in the base station, both are the other way round: BBR does not react to losses
and sends 6 % again, CUBIC 0.5 %, and CUBIC's RTT and RTO are lower. The slide's advantage fits a deep queue
that drops from its tail.""",
)
def fig9(c: Claim) -> None:
    """BBR keeps the RTT low with a smaller window; its benefits are a low retransmission rate, a smaller RTO and fewer
    spurious RTOs."""
    drive = c.run(
        "drive",
        trace="radio:highway-700",
        cc=["bbr", "cubic:linux48", "cubic:linux319"],
        rtt="50ms",
        queue="droptail:2MB",
        duration="5400s",
        skip="0s",
        seeds=[1, 2, 3, 4],
        path='rto_rule = "linux"',
        flow='transfer = { size = "20MB", every = "30s", handshake = true }',
    )
    codel = c.run(
        "codel",
        trace="radio:highway-700",
        cc=["bbr", "cubic:linux48"],
        rtt="50ms",
        queue="codel",
        duration="5400s",
        skip="0s",
        seeds=[1, 2, 3, 4],
        path='rto_rule = "linux"',
        flow='transfer = { size = "20MB", every = "30s", handshake = true }',
    )
    drive.core(
        "behind drop-tail of 2 MB the median of BBR's RTOs (Linux' rule) is below that of CUBIC of 4.8",
        lambda run: (
            run["transfer.rto_ms"].at(cc="bbr").median() < run["transfer.rto_ms"].at(cc="cubic:linux48").median()
        ),
    )
    drive.core(
        "behind drop-tail of 2 MB it sends at most half of the share of its packets again",
        lambda run: (
            run["transfer.retransmitted"].at(cc="bbr").sum() / run["transfer.packets_sent"].at(cc="bbr").sum()
            <= 0.5
            * run["transfer.retransmitted"].at(cc="cubic:linux48").sum()
            / run["transfer.packets_sent"].at(cc="cubic:linux48").sum()
        ),
    )
    codel.full(
        "behind CoDel the median of BBR's RTOs (Linux' rule) is below that of CUBIC of 4.8",
        lambda run: (
            run["transfer.rto_ms"].at(cc="bbr").median() < run["transfer.rto_ms"].at(cc="cubic:linux48").median()
        ),
    )
    codel.full(
        "behind CoDel it sends at most half of the share of its packets again",
        lambda run: (
            run["transfer.retransmitted"].at(cc="bbr").sum() / run["transfer.packets_sent"].at(cc="bbr").sum()
            <= 0.5
            * run["transfer.retransmitted"].at(cc="cubic:linux48").sum()
            / run["transfer.packets_sent"].at(cc="cubic:linux48").sum()
        ),
    )
    drive.full(
        "it has no more spurious timeouts",
        lambda run: (
            run["transfer.spurious_timeouts"].at(cc="bbr").sum()
            <= run["transfer.spurious_timeouts"].at(cc="cubic:linux48").sum()
        ),
    )
    drive.chart(
        "cdf",
        lambda run: run["transfer.rto_ms"],
        group="cc",
        caption="Median RTO of each of 720 downloads behind 2 MB.",
    )
    drive.chart(
        "cdf",
        lambda run: run["transfer.retransmitted"] / run["transfer.packets_sent"],
        group="cc",
        caption="Share of each download's packets that was sent again, behind 2 MB.",
    )
    codel.chart(
        "cdf",
        lambda run: run["transfer.retransmitted"] / run["transfer.packets_sent"],
        group="cc",
        caption="The same behind CoDel.",
    )


@claim(
    "RTT and Throughput, scatter",
    "figure",
    "model",
    expected="reproduced",
    original={"note": "a scatter of throughput over self-inflicted RTT without printed values"},
    because="""On the drives the median of the mean self-inflicted RTTs is 74 ms with BBR and 214 ms with CUBIC, at 13.3 and
13.7 Mbit/s.""",
)
def fig10(c: Claim) -> None:
    """BBR has much less self-inflicted RTT than CUBICs with similar throughputs."""
    drive = c.run(
        "drive",
        trace="radio:highway-700",
        cc=["bbr", "cubic:linux48", "cubic:linux319"],
        rtt="50ms",
        queue="droptail:2MB",
        duration="5400s",
        skip="0s",
        seeds=[1, 2, 3, 4],
        path='rto_rule = "linux"',
        flow='transfer = { size = "20MB", every = "30s", handshake = true }',
    )
    traces = c.run(
        "traces",
        trace=["highway-3g", "att-lte-driving", "lte-driving"],
        cc=["bbr", "cubic:linux48", "cubic:linux319"],
        rtt="50ms",
        queue="droptail:2MB",
        duration="120s",
        skip="0s",
        starts=30,
        path='rto_rule = "linux"',
        flow='transfer = { size = "20MB", handshake = true }',
    )
    drive.core(
        "on the drives the median of BBR's mean self-inflicted RTTs is at most half of that of CUBIC of 4.8",
        lambda run: (
            run["transfer.self_inflicted_ms"].at(cc="bbr").median()
            <= 0.5 * run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").median()
        ),
    )
    drive.core(
        "on the drives its mean goodput is at least 0.85 of CUBIC's",
        lambda run: (
            run["transfer.goodput_mbps"].at(cc="bbr").mean()
            >= 0.85 * run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean()
        ),
    )
    traces.core(
        "on three recorded traces the median of BBR's mean self-inflicted RTTs is at most half of that of CUBIC of 4.8",
        lambda run: (
            run["transfer.self_inflicted_ms"].at(cc="bbr").median()
            <= 0.5 * run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").median()
        ),
    )
    traces.core(
        "on three recorded traces its mean goodput is at least 0.85 of CUBIC's",
        lambda run: (
            run["transfer.goodput_mbps"].at(cc="bbr").mean()
            >= 0.85 * run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean()
        ),
    )
    traces.full(
        "on each trace, too",
        lambda run: (
            run["transfer.self_inflicted_ms"].at(cc="bbr").median("start", "seed", "transfer")
            <= 0.5 * run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").median("start", "seed", "transfer")
        ).all(),
    )
    drive.chart(
        "scatter",
        lambda run: run["transfer.goodput_mbps"].at(cc=["bbr", "cubic:linux48"]),
        x=lambda run: run["transfer.self_inflicted_ms"].at(cc=["bbr", "cubic:linux48"]),
        group="cc",
        caption="Goodput of each of 720 downloads over its mean self-inflicted RTT.",
        log="x",
    )
    traces.chart(
        "scatter",
        lambda run: run["transfer.goodput_mbps"].mean("start", "seed", "transfer"),
        x=lambda run: run["transfer.self_inflicted_ms"].mean("start", "seed", "transfer"),
        group="cc",
        caption="Means of 30 downloads on recorded traces, a mark for each trace.",
        log="x",
    )


@claim(
    "RTT and Throughput, distribution",
    "figure",
    "model",
    expected="refuted",
    headline="Self-inflicted delay of BBR far below CUBIC's",
    original={"note": "a distribution without printed values"},
    because="""Not at the lowest two deciles of the drives, where every decile is asked for: 21 and 33 ms there, CUBIC's below BBR's. One reason is the measure: a
download that begins while the one before it still fills the queue has a handshake RTT of up to a second, and so
inflicts nothing. The other is HyStart, which leaves short downloads on a good radio without a queue. For the
same reasons CUBIC has the lower one in over a quarter of the downloads at equal throughput. From the median on
BBR has about a third and less.""",
)
def fig11(c: Claim) -> None:
    """The distribution of BBR's self-inflicted RTT lies far below those of the two CUBICs."""
    drive = c.run(
        "drive",
        trace="radio:highway-700",
        cc=["bbr", "cubic:linux48", "cubic:linux319"],
        rtt="50ms",
        queue="droptail:2MB",
        duration="5400s",
        skip="0s",
        seeds=[1, 2, 3, 4],
        path='rto_rule = "linux"',
        flow='transfer = { size = "20MB", every = "30s", handshake = true }',
    )
    traces = c.run(
        "traces",
        trace=["highway-3g", "att-lte-driving", "lte-driving"],
        cc=["bbr", "cubic:linux48", "cubic:linux319"],
        rtt="50ms",
        queue="droptail:2MB",
        duration="120s",
        skip="0s",
        starts=30,
        path='rto_rule = "linux"',
        flow='transfer = { size = "20MB", handshake = true }',
    )
    drive.core(
        "on the drives BBR's distribution lies left of that of CUBIC of 4.8 at every decile",
        lambda run: (
            (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(10)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").percentile(10)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(20)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").percentile(20)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(30)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").percentile(30)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(40)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").percentile(40)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(50)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").percentile(50)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(60)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").percentile(60)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(70)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").percentile(70)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(80)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").percentile(80)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(90)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").percentile(90)
            )
        ),
    )
    drive.core(
        "on the drives BBR's distribution lies left of that of CUBIC of 3.19 at every decile",
        lambda run: (
            (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(10)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux319").percentile(10)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(20)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux319").percentile(20)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(30)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux319").percentile(30)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(40)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux319").percentile(40)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(50)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux319").percentile(50)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(60)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux319").percentile(60)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(70)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux319").percentile(70)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(80)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux319").percentile(80)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(90)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux319").percentile(90)
            )
        ),
    )
    traces.core(
        "on three recorded traces BBR's distribution lies left of that of CUBIC of 4.8 at every decile",
        lambda run: (
            (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(10)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").percentile(10)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(20)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").percentile(20)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(30)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").percentile(30)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(40)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").percentile(40)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(50)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").percentile(50)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(60)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").percentile(60)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(70)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").percentile(70)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(80)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").percentile(80)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(90)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").percentile(90)
            )
        ),
    )
    traces.core(
        "on three recorded traces BBR's distribution lies left of that of CUBIC of 3.19 at every decile",
        lambda run: (
            (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(10)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux319").percentile(10)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(20)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux319").percentile(20)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(30)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux319").percentile(30)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(40)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux319").percentile(40)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(50)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux319").percentile(50)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(60)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux319").percentile(60)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(70)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux319").percentile(70)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(80)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux319").percentile(80)
            )
            & (
                run["transfer.self_inflicted_ms"].at(cc="bbr").percentile(90)
                <= run["transfer.self_inflicted_ms"].at(cc="cubic:linux319").percentile(90)
            )
        ),
    )
    drive.full(
        "of the downloads that both finish at throughputs within 10 %, BBR has the lower self-inflicted RTT in 90 % or more",
        lambda run: (
            (
                (
                    abs(
                        run["transfer.goodput_mbps"].at(cc="bbr") / run["transfer.goodput_mbps"].at(cc="cubic:linux48")
                        - 1
                    )
                    <= 0.1
                )
                & (
                    run["transfer.self_inflicted_ms"].at(cc="bbr")
                    < run["transfer.self_inflicted_ms"].at(cc="cubic:linux48")
                )
            ).count()
            >= 0.9
            * (
                abs(run["transfer.goodput_mbps"].at(cc="bbr") / run["transfer.goodput_mbps"].at(cc="cubic:linux48") - 1)
                <= 0.1
            ).count()
        ),
    )
    drive.chart(
        "cdf",
        lambda run: run["transfer.self_inflicted_ms"],
        group="cc",
        caption="Mean RTT of each of 720 downloads above that of its handshake.",
        log="x",
    )
    traces.chart(
        "cdf",
        lambda run: run["transfer.self_inflicted_ms"],
        group="cc",
        caption="The same on recorded traces, 30 starts each.",
        log="x",
    )


@claim(
    "Summary; Conclusions",
    "text",
    "model",
    expected="in part",
    original={"note": "what table1, fig9, fig11 and text-lowutil say, taken together"},
    because="""Comparable throughput at a third of the self-inflicted RTT and with hardly a retransmission: yes, in a deep
drop-tail queue. The winner: there by delay only, as CUBIC has 3 % more goodput. Behind CoDel BBR has 1.25 times
CUBIC's goodput, with more delay and 6 % of its packets sent again. That HyStart harms CUBIC shows at 50 Mbit/s
and not at 40 or on the drives.""",
)
def conclusion(c: Claim) -> None:
    """BBR balances RTT and throughput, is the winner on the highway, and would be a good choice for a proxy; CUBIC
    with HyStart may not perform well on LTE."""
    drive = c.run(
        "drive",
        trace="radio:highway-700",
        cc=["bbr", "cubic:linux48"],
        rtt="50ms",
        queue="droptail:2MB",
        duration="5400s",
        skip="0s",
        seeds=[1, 2, 3, 4],
        path='rto_rule = "linux"',
        flow='transfer = { size = "20MB", every = "30s", handshake = true }',
    )
    codel = c.run(
        "codel",
        trace="radio:highway-700",
        cc=["bbr", "cubic:linux48"],
        rtt="50ms",
        queue="codel",
        duration="5400s",
        skip="0s",
        seeds=[1, 2, 3, 4],
        path='rto_rule = "linux"',
        flow='transfer = { size = "20MB", every = "30s", handshake = true }',
    )
    jitter = c.run(
        "jitter",
        trace=["constant:40mbit", "constant:50mbit"],
        cc=["cubic:linux48", "cubic:linux48,hystart=off", "bbr"],
        rtt="50ms",
        queue="droptail:2MB",
        path="jitter = 'harq:bler=10%,rtt=8ms'",
        duration="30s",
        skip="0s",
        seeds=[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        flow='transfer = { size = "20MB", handshake = true }',
    )
    drive.core(
        "comparable throughput: BBR's mean goodput is 0.85 to 1.25 times that of CUBIC of 4.8",
        lambda run: (
            (
                run["transfer.goodput_mbps"].at(cc="bbr").mean()
                / run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean()
                >= 0.85
            )
            & (
                run["transfer.goodput_mbps"].at(cc="bbr").mean()
                / run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean()
                <= 1.25
            )
        ),
    )
    drive.core(
        "a low RTT: the median of its self-inflicted RTTs is at most half",
        lambda run: (
            run["transfer.self_inflicted_ms"].at(cc="bbr").median()
            <= 0.5 * run["transfer.self_inflicted_ms"].at(cc="cubic:linux48").median()
        ),
    )
    drive.core(
        "fewer retransmissions: at most half",
        lambda run: (
            run["transfer.retransmitted"].at(cc="bbr").sum()
            <= 0.5 * run["transfer.retransmitted"].at(cc="cubic:linux48").sum()
        ),
    )
    drive.full(
        "the winner: its mean goodput is at least that of CUBIC of 4.8",
        lambda run: (
            run["transfer.goodput_mbps"].at(cc="bbr").mean()
            / run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean()
            >= 1
        ),
    )
    codel.full(
        "behind CoDel, too",
        lambda run: (
            run["transfer.goodput_mbps"].at(cc="bbr").mean()
            / run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean()
            >= 1
        ),
    )
    jitter.full(
        "CUBIC with HyStart performs worse: it has at most 0.87 of BBR's goodput at 40 and at 50 Mbit/s with the jitter of HARQ",
        lambda run: (
            run["transfer.goodput_mbps"].at(cc="cubic:linux48").mean("start", "seed", "transfer")
            <= 0.87 * run["transfer.goodput_mbps"].at(cc="bbr").mean("start", "seed", "transfer")
        ).all(),
    )
    drive.chart(
        "scatter",
        lambda run: run["transfer.goodput_mbps"].mean("trace", "start", "transfer"),
        x=lambda run: run["transfer.self_inflicted_ms"].mean("trace", "start", "transfer"),
        group="cc",
        caption="Means of 180 downloads of 20 MB, a mark for each of four drives.",
        log="x",
    )


@claim(
    "Congestion Control Algorithm over Mobile Network",
    "text",
    "virtual",
    expected="reproduced",
    original={"note": "no values printed"},
)
def text_buffers(c: Claim) -> None:
    """A large buffer inside the eNodeB is a double-edged sword: it serves a varying rate, and may increase the RTT."""
    buffers = c.run(
        "buffers",
        trace=["highway-3g", "lte-driving"],
        cc=["cubic", "bbr", "verus:r=2"],
        queue=["droptail:50kB", "droptail:200kB", "droptail:1MB", "droptail:4MB"],
        rtt="40ms",
        duration="60s",
        skip="2s",
        starts=5,
    )
    buffers.core(
        "with 1 MB CUBIC has at least 1.1 times the throughput that it has with 50 kB",
        lambda run: (
            run["throughput_mbps"].at(cc="cubic", queue="droptail:1MB").mean()
            >= 1.1 * run["throughput_mbps"].at(cc="cubic", queue="droptail:50kB").mean()
        ),
    )
    buffers.core(
        "with 4 MB its 95th percentile of the queue delay is at least five times that with 200 kB",
        lambda run: (
            run["queue_delay_ms.p95"].at(cc="cubic", queue="droptail:4MB").mean()
            >= 5 * run["queue_delay_ms.p95"].at(cc="cubic", queue="droptail:200kB").mean()
        ),
    )
    buffers.full(
        "that of BBR and Verus less than doubles from 200 kB to 4 MB",
        lambda run: (
            run["queue_delay_ms.p95"].at(cc=["bbr", "verus:r=2"], queue="droptail:4MB").mean("trace", "start", "seed")
            <= 2
            * run["queue_delay_ms.p95"]
            .at(cc=["bbr", "verus:r=2"], queue="droptail:200kB")
            .mean("trace", "start", "seed")
        ).all(),
    )
    buffers.chart(
        "table",
        lambda run: run["queue_delay_ms.p95"].mean("trace", "start", "seed"),
        x="queue",
        group="cc",
        caption="95th percentile of the queue delay over the size of the buffer.",
    )
    buffers.chart(
        "table",
        lambda run: run["throughput_mbps"].mean("trace", "start", "seed"),
        x="queue",
        group="cc",
        caption="Throughput over the size of the buffer.",
    )


@claim(
    "Congestion Control Algorithm over Mobile Network",
    "text",
    "virtual",
    expected="reproduced",
    original={"note": "no values printed"},
    because="""Arithmetic: what is in flight on 50 Mbit/s and 60 ms (375 kB) waits 1.5 s on 2 Mbit/s.""",
)
def text_rwin(c: Claim) -> None:
    """Reducing the largest receive window of phones to avoid bufferbloat is not practical."""
    windows = c.run(
        "windows",
        trace=["constant:2mbit", "constant:10mbit", "constant:50mbit"],
        cc="cubic:max_window={window}",
        queue="droptail:4MB",
        rtt="60ms",
        duration="60s",
        skip="5s",
        sweep={"window": ["64kB", "256kB", "512kB", "1MB"]},
    )
    windows.core(
        "no window has both 0.9 of 50 Mbit/s and 300 ms or less at 2 Mbit/s",
        lambda run: (
            ~(
                (run["utilization"].at(trace="constant:50mbit").mean("cc", "start", "seed") >= 0.9)
                & (run["queue_delay_ms.p95"].at(trace="constant:2mbit").mean("cc", "start", "seed") <= 300 * ms)
            ).any()
        ),
    )
    windows.full(
        "one that fills 50 Mbit/s has a second or more at 2 Mbit/s",
        lambda run: (
            (run["utilization"].at(trace="constant:50mbit").mean("cc", "start", "seed") < 0.9)
            | (run["queue_delay_ms.p95"].at(trace="constant:2mbit").mean("cc", "start", "seed") >= 1 * s)
        ).all(),
    )
    windows.chart(
        "table",
        lambda run: run["queue_delay_ms.p95"].mean("cc", "start", "seed"),
        x="window",
        group="trace",
        caption="95th percentile of the queue delay by the bound of the window.",
    )
    windows.chart(
        "table",
        lambda run: run["utilization"].mean("cc", "start", "seed"),
        x="window",
        group="trace",
        caption="Share of the link that is used.",
    )


@claim(
    "Congestion Control Algorithm over Mobile Network",
    "text",
    "virtual",
    expected="in part",
    depends=("RTT", "buffer"),
    expected_quick="reproduced",
    original={"note": "no values printed"},
    because="""But for Copa, whose share beside CUBIC in turn is 0.976 in the mean of five starts, where 0.98 was asked (within
the noise): on a channel that varies it leaves some of its half, and the scheduler gives that to CUBIC. The
sentence stands otherwise: with a queue for each device Verus' delay is the same whatever the other device does,
and in one shared queue CUBIC takes nearly all.""",
)
def text_fairness(c: Claim) -> None:
    """Fairness may not be an important metric for congestion control over LTE, because an eNodeB has a queue for each
    device."""
    devices = c.run(
        "devices",
        trace="mdi/channel08",
        starts=["0s", "60s", "120s", "180s", "240s"],
        sweep={"pair": ["verus:r=2", "copa", "bbr"], "scheduler": ["rr", "pf:window=1s"]},
        scenario="""trace = "{trace}"
rtt = "40ms"
queue = "droptail:2MB"
duration = "60s"
skip = "5s"
[cell]
scheduler = "{scheduler}"
[[user]]
name = "one"
[[user]]
name = "two"
[[flow]]
cc = "{pair}"
user = "one"
[[flow]]
cc = "cubic"
user = "two"
""",
    )
    verus = c.run(
        "verus",
        trace="mdi/channel08",
        starts=["0s", "60s", "120s", "180s", "240s"],
        sweep={"other": ["verus:r=2", "cubic"]},
        scenario="""trace = "{trace}"
rtt = "40ms"
queue = "droptail:2MB"
duration = "60s"
skip = "5s"
[cell]
scheduler = "rr"
[[user]]
name = "one"
[[user]]
name = "two"
[[flow]]
cc = "verus:r=2"
user = "one"
[[flow]]
cc = "{other}"
user = "two"
""",
    )
    shared = c.run(
        "shared",
        trace="mdi/channel08",
        starts=["0s", "60s", "120s", "180s", "240s"],
        sweep={"pair": ["verus:r=2", "copa", "bbr"]},
        scenario="""trace = "{trace}"
rtt = "40ms"
queue = "droptail:2MB"
duration = "60s"
skip = "5s"
[[flow]]
cc = "{pair}"
[[flow]]
cc = "cubic"
""",
    )
    devices.core(
        "with a queue for each device the shares of every pair are equal (Jain's index 0.98)",
        lambda run: (run["shares"].mean("start", "seed") >= 0.98).all(),
    )
    verus.core(
        "Verus' queue beside CUBIC is within 25 % of that beside another Verus",
        lambda run: (
            abs(
                run["flow.queue_delay_ms.mean"].at(other="cubic", flow="0").mean()
                / run["flow.queue_delay_ms.mean"].at(other="verus:r=2", flow="0").mean()
                - 1
            )
            <= 0.25
        ),
    )
    shared.core(
        "in one shared queue at least two of the three pairs are at 0.85 or below",
        lambda run: (run["shares"].mean("start", "seed") <= 0.85).count() >= 2,
    )
    devices.chart(
        "table",
        lambda run: run["shares"].mean("start", "seed"),
        x="scheduler",
        group="pair",
        caption="Jain's index of two devices with a queue each, the second with CUBIC.",
    )
    shared.chart(
        "table",
        lambda run: run["shares"].mean("start", "seed"),
        x="pair",
        caption="Jain's index where they share one queue.",
    )


@claim(
    "Conclusions",
    "component",
    "component",
    expected="built",
    tests=("radio_g4_",),
    because="""`radio:highway-700` is a model of such a drive, with its sources and what it cannot show in
docs/reference/radio.md; `cellpace trace fit` makes a profile of a recorded drive.""",
)
def model(c: Claim) -> None:
    """Results of measurements are input to models."""
