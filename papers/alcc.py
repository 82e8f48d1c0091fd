"""ALCC: migrating congestion control to the application layer (2022)."""

from papers.claims import Claim, claim
from papers.figures import mbit, ms


@claim(
    "Abstract, sections 1 and 5",
    "text",
    "real",
    expected="in part",
    headline="Throughput and delay within 3 to 10 % of native",
    original={"within_percent": [3, 10]},
    because="""By default all twelve cells (Verus with R=2 and Copa on six traces) are within 3 % of native in throughput and
within 10 % in the median delay, above Reno as well. Above Cubic alone (--below cubic) the throughput is within
10 %, but three of twelve medians are 11 to 14 % lower than native, those of Verus on beachfront-walk and
rapid-change and of Copa on highway-3g: there Cubic holds the controller back, which shortens the queue. This
kernel has no tcp_bic: BIC below is open.""",
)
def abstract(c: Claim) -> None:
    """Throughput and delay of a controller above TCP are within 3 to 10 % of its native form, whatever the TCP below."""
    cells = c.run("cells", recording="alcc-cells")
    cells.core(
        "throughput within 10 % of native in every cell",
        lambda run: (
            abs(
                run["throughput_mbps"].at(driver="gate").mean("run")
                / run["throughput_mbps"].at(driver="native").mean("run")
                - 1
            )
            <= 0.1
        ).all(),
        bound="paper",
    )
    cells.core(
        "median delay within 15 % of native in at least ten of twelve cells",
        lambda run: (
            (
                abs(
                    run["queue_delay_ms.p50"].at(driver="gate").mean("run")
                    / run["queue_delay_ms.p50"].at(driver="native").mean("run")
                    - 1
                )
                <= 0.15
            ).count()
            >= 10
        ),
    )
    cells.full(
        "throughput within 3 % and median delay within 10 % in every cell",
        lambda run: (
            (
                abs(
                    run["throughput_mbps"].at(driver="gate").mean("run")
                    / run["throughput_mbps"].at(driver="native").mean("run")
                    - 1
                )
                <= 0.03
            ).all()
            & (
                abs(
                    run["queue_delay_ms.p50"].at(driver="gate").mean("run")
                    / run["queue_delay_ms.p50"].at(driver="native").mean("run")
                    - 1
                )
                <= 0.1
            ).all()
        ),
    )
    cells.full(
        "above Reno: throughput within 3 % and median delay within 10 %",
        lambda run: (
            (
                abs(
                    run["throughput_mbps"].at(driver="reno").mean("run")
                    / run["throughput_mbps"].at(driver="native", run=["0", "1", "2"]).mean("run")
                    - 1
                )
                <= 0.03
            ).all()
            & (
                abs(
                    run["queue_delay_ms.p50"].at(driver="reno").mean("run")
                    / run["queue_delay_ms.p50"].at(driver="native", run=["0", "1", "2"]).mean("run")
                    - 1
                )
                <= 0.1
            ).all()
        ),
    )
    cells.full(
        "above Cubic alone: throughput within 10 %",
        lambda run: (
            abs(
                run["throughput_mbps"].at(driver="cubic").mean("run")
                / run["throughput_mbps"].at(driver="native", run=["0", "1", "2"]).mean("run")
                - 1
            )
            <= 0.1
        ).all(),
    )
    cells.full(
        "above Cubic alone: median delay within 10 %",
        lambda run: (
            abs(
                run["queue_delay_ms.p50"].at(driver="cubic").mean("run")
                / run["queue_delay_ms.p50"].at(driver="native", run=["0", "1", "2"]).mean("run")
                - 1
            )
            <= 0.1
        ).all(),
    )
    cells.chart(
        "table",
        lambda run: (
            run["throughput_mbps"].at(driver="gate").mean("run")
            / run["throughput_mbps"].at(driver="native").mean("run")
        ),
        x="trace",
        group="cc",
        caption="Throughput above TCP over that of the native form, ten runs a cell; the paper prints no values per trace.",
    )
    cells.chart(
        "table",
        lambda run: (
            run["queue_delay_ms.p50"].at(driver="gate").mean("run")
            / run["queue_delay_ms.p50"].at(driver="native").mean("run")
        ),
        x="trace",
        group="cc",
        caption="Median queue delay above TCP over that of the native form.",
    )


@claim(
    "Abstract and section 3.2",
    "text",
    "real",
    expected="reproduced",
    because="""The client is an unmodified curl. With the gate the server sends the same 5000205 bytes (header and file) as
plain TCP, with the same options and flags; but PSH stands in 3455 of 3458 segments instead of 1725, since TCP
gets its data in pieces of a packet or two. The kernel driver was not captured: it changes no segment, but for
PSH with --prompt-acks.""",
)
def zero(c: Claim) -> None:
    """ALCC runs at the server alone and adds no byte to what is sent."""
    captures = c.run("captures", recording="alcc-bytes")
    captures.core(
        "as many bytes as plain TCP, and the file is whole",
        lambda run: (run["more_payload"].max() <= 0) & (run["more_payload"].min() >= 0) & (run["whole"].min() >= 1),
    )
    captures.core(
        "no option and no flag that plain TCP does not send",
        lambda run: run["new_options"].max() + run["new_flags"].max() <= 0,
    )
    captures.chart(
        "table", lambda run: run["pushed"], x="driver", group="cc", caption="Segments with PSH, of some 3458."
    )


@claim(
    "Sections 2 and 5.2",
    "text",
    "real",
    expected="reproduced",
    headline="A short queue above unmodified TCP, at nearly its throughput",
    because="""nginx and curl, unmodified, on city-drive. What Verus with R=2 gives up is its own, above TCP or not; R=4 has 98
% of the throughput.""",
)
def bloat(c: Claim) -> None:
    """TCP alone overfills the buffer of a cellular network; a controller above it keeps the queue short at nearly the
    throughput."""
    web = c.run("web", recording="alcc-web")
    web.core(
        "95th percentile of the queue delay of plain TCP at least 10 times that of Verus with R=2",
        lambda run: (
            run["queue_delay_ms.p95"].at(way="plain").mean() / run["queue_delay_ms.p95"].at(way="verus:r=2").mean()
            >= 10
        ),
    )
    web.core(
        "at least 0.75 of the throughput of plain TCP",
        lambda run: (
            run["throughput_mbps"].at(way="verus:r=2").mean() / run["throughput_mbps"].at(way="plain").mean() >= 0.75
        ),
    )
    web.full(
        "Verus with R=4: at least 0.9 of the throughput, at a tenth of the delay",
        lambda run: (
            (run["throughput_mbps"].at(way="verus:r=4").mean() / run["throughput_mbps"].at(way="plain").mean() >= 0.9)
            & (
                run["queue_delay_ms.p95"].at(way="plain").mean() / run["queue_delay_ms.p95"].at(way="verus:r=4").mean()
                >= 10
            )
        ),
    )
    web.chart(
        "scatter",
        lambda run: run["throughput_mbps"].mean("run"),
        x=lambda run: run["queue_delay_ms.p95"].mean("run"),
        group="way",
        caption="Throughput against the 95th percentile of the queue delay, nginx and curl on city-drive; the paper prints no values.",
        log="x",
    )


@claim(
    "Section 2",
    "component",
    "component",
    expected="built",
    tests=(
        "the_client_server_driver_runs_between_two_proxies_and_spares_plain_clients",
        "a_proxy_whose_kernel_driver_is_removed_has_the_gate_only_where_that_was_chosen",
        "bytes_of_a_plain_peer_pass_unchanged_in_both_directions",
    ),
    because="""Whether the queue behind a proxy that ends TCP is the proxy's, whatever the server does, is not measured.""",
)
def middlebox(c: Claim) -> None:
    """Middleboxes that end TCP connections need the client-server form, or ALCC in the middlebox."""


@claim(
    "Table 1, section 2.1",
    "table",
    "field",
    expected="not testable here",
    because="""A table of properties, not of measurements: there is nothing to run. What it says of ALCC (user space, no change
of kernel or client, the TCP below stays) holds for this program, whose kernel driver is optional.""",
)
def table1(c: Claim) -> None:
    """Features of QUIC, CCP and ALCC: where they run, what they need changed, at which end."""


@claim(
    "Figure 1, section 3.1",
    "figure",
    "real",
    expected="in part",
    original={"rate_mbps": 12, "note": "axes only"},
    because="""The window of TCP is above the application's at the end of every run, but 1.06 to 2.0 times only: a TCP that its
application limits grows no further than to about twice what was in flight. Recorded are the windows at the end,
above Cubic; the windows over time, and those of Reno and BIC, are open.""",
)
def fig1(c: Claim) -> None:
    """Below a static window and one redrawn each second, the window of TCP stays above the application's, flat and
    unnecessarily high; alike with Cubic, Reno and BIC."""
    windows = c.run("windows", recording="alcc-windows")
    windows.core(
        "at the end the window of TCP is at least that of the application, for every window",
        lambda run: (run["tcp_cwnd_bytes"] / run["cwnd_bytes"] >= 1).all(),
        bound="paper",
    )
    windows.full("it is at least 1.5 times that", lambda run: (run["tcp_cwnd_bytes"] / run["cwnd_bytes"] >= 1.5).all())
    windows.chart(
        "table",
        lambda run: run["tcp_cwnd_bytes"] / run["cwnd_bytes"],
        x="cc",
        caption="Window of TCP over that of the application at the end of the run.",
    )


@claim(
    "Figure 2, section 3.1",
    "figure",
    "real",
    expected="reproduced",
    original={"rate_mbps": 12, "note": "axes only"},
    because="""The window of plain Cubic over time was not recorded; that it fills the buffer of 2 MB follows from rate and
delay.""",
)
def fig2(c: Claim) -> None:
    """A static window that just fills 12 Mbit/s has the throughput of Cubic alone at far less delay, while the window
    of Cubic grows."""
    windows = c.run("windows", recording="alcc-windows")
    windows.core(
        "at least 0.95 of the throughput of plain Cubic",
        lambda run: (
            run["throughput_mbps"].at(cc="fixed:cwnd=41pkts").mean() / run["throughput_mbps"].at(cc="plain").mean()
            >= 0.95
        ),
    )
    windows.core(
        "95th percentile of the queue delay at most 0.1 of plain Cubic's",
        lambda run: (
            run["queue_delay_ms.p95"].at(cc="fixed:cwnd=41pkts").mean()
            / run["queue_delay_ms.p95"].at(cc="plain").mean()
            <= 0.1
        ),
    )
    windows.core(
        "the window of plain Cubic, its rate times RTT and queue, has grown to ten times the static one",
        lambda run: (
            run["throughput_mbps"].at(cc="plain").mean()
            * (40 * ms + run["queue_delay_ms.p95"].at(cc="plain").mean())
            / run["cwnd_bytes"].at(cc="fixed:cwnd=41pkts").mean()
            >= 10
        ),
    )
    windows.chart(
        "table",
        lambda run: run["queue_delay_ms.p95"].mean("run"),
        x="cc",
        caption="95th percentile of the queue delay, 12 Mbit/s.",
    )


@claim(
    "Section 3.2",
    "component",
    "component",
    expected="built",
    tests=(
        "alcc_t5_",
        "alcc_t6_",
        "alcc_t7_",
        "a_writer_waits_when_the_window_is_full",
        "memory_is_bounded_and_no_byte_is_lost",
    ),
)
def min_(c: Claim) -> None:
    """What is sent is the lesser of the controller's window and TCP's; a full TCP stops ALCC, a full queue of ALCC
    stops the application."""


@claim(
    "Figure 3a, section 4.1.1",
    "component",
    "component",
    expected="built",
    tests=("alcc_t5_", "alcc_t9_", "alcc_t11_", "errors_and_ends_are_as_the_header_says"),
    because="""Queue, sender and receiver of acks are there, with a C interface in place of C++. A controller of one's own is
plugged in by a build in Rust only.""",
)
def fig3a(c: Claim) -> None:
    """A C++ library: a circular queue, a sender, a receiver of acks, and places where own controllers are put."""


@claim(
    "Section 4.1.1",
    "component",
    "component",
    expected="built",
    tests=(
        "the_example_echoes_what_it_accepts",
        "the_example_echoes_what_it_opens",
        "what_send_accepted_arrives_however_the_program_ends",
        "errors_and_ends_are_as_the_header_says",
        "a_connection_is_taken_over_and_its_end_is_reported",
    ),
)
def api(c: Claim) -> None:
    """Programs use alcc_accept, alcc_send and alcc_close in place of the calls of sockets, or preload the library."""


@claim(
    "Figure 3b, section 4.1.2",
    "component",
    "component",
    expected="built",
    tests=(
        "every_acknowledgment_has_a_record_as_fast_as_they_come",
        "acks_are_stamped_with_offset_and_time",
        "the_program_and_user_space_have_the_same_layout",
        "ports_that_are_not_named_stay_plain",
    ),
    because="""In place of a module with Netfilter there is an eBPF congestion control (the kernel driver), which needs no
build for the running kernel; without it the acks come from TCP's own time stamps.""",
)
def fig3b(c: Claim) -> None:
    """A kernel module brings acks to user space, for ports that are registered."""


@claim(
    "Section 4.1.3",
    "component",
    "component",
    expected="built",
    tests=(
        "alcc_t1_",
        "alcc_t2_",
        "alcc_t3_",
        "alcc_t4_",
        "alcc_t12_",
        "what_is_written_arrives_under_every_controller",
    ),
    because="""All controllers of the program run above TCP without a port of their own.""",
)
def port(c: Claim) -> None:
    """Controllers are ported in days: acks of bytes become acks of packets, cumulative and wrapped numbers are
    unfolded."""


@claim(
    "Section 4.2",
    "component",
    "component",
    expected="built",
    tests=(
        "alcc_t10_",
        "both_ends_agree_and_say_so",
        "streams_arrive_in_both_directions_whatever_happens_on_the_way",
        "data_goes_both_ways_under_controllers_with_and_without_a_half",
    ),
)
def clientserver(c: Claim) -> None:
    """A client-server library with headers, numbers and acks of its own needs no kernel module."""


@claim(
    "Figure 14, sections 4.2 and 5.6",
    "figure",
    "real",
    expected="open",
    original={"kernel_module_over_native": [1.5, 2.0], "client_server_over_native": 1.11},
    because="""Recorded is the cost against plain TCP only: at 100 Mbit/s Verus with R=2 takes 2.19 s per GB with the gate,
0.97 with the kernel driver, plain TCP 0.34. Closes it: processor time per GB of the sender at highway-3g and
verizon-lte-short, 60 s, five runs each of native (send), gate, client-server, kernel driver and plain,
interleaved.""",
)
def fig14(c: Claim) -> None:
    """Processor time against native: 1.5 to 2 times with the kernel module, 11 % more with the client-server library."""
    cost = c.run("cost", recording="alcc-cost")
    cost.chart(
        "table",
        lambda run: run["cpu_per_gb"],
        x="way",
        group="rate",
        caption="Processor time of the server's side, in seconds per GB; native is not among them.",
    )


@claim(
    "Section 4.3",
    "component",
    "field",
    expected="not testable here",
    because="""It is in java/, for Android's API level 21: checked by signatures and by making its bytecode, and run on a JVM
against cellpace proxy --driver client-server (docs/how-to/android.md). There is no phone here.""",
)
def java(c: Claim) -> None:
    """The client-server library in Java runs on Android."""


@claim(
    "Section 4.3",
    "component",
    "field",
    expected="not testable here",
    because="""The source of one is in java/example, and compiles against Android's stubs; it needs a phone to run. Its upload
runs on a JVM behind emulated uplinks (docs/how-to/android.md).""",
)
def app(c: Claim) -> None:
    """An app for Android uploads files with the library, Verus as MDI inside."""


@claim(
    "Figure 4, section 4.3",
    "figure",
    "field",
    expected="not testable here",
    because="""It needs a phone in a live network. The stand-in, the same library on a JVM over the uplink of recorded traces
against plain TCP, is in docs/how-to/android.md, as measured. docs/how-to/live-network.md says how to measure it
live.""",
)
def fig4(c: Claim) -> None:
    """An upload by the app has the throughput of scp above Cubic, at much lower delay, over 3G and 4G."""


@claim(
    "Section 4.3",
    "text",
    "virtual",
    expected="in part",
    depends=("buffer",),
    because="""The authors published 990 of the channels with the tables trained on them. Their table of Verus (by cellpace mdi
convert) fills the queue: on the five traces of hspa it has 1.03 to 1.19 of the throughput of Verus with R = 2 at 29 to 72
times its delay. Here eight channels are learnt from, and a table of all is not tried. With relative states, in
which a table would know any channel, it has 0.75 of the throughput of Verus with R = 2 and five times its delay on beachfront-walk. With levels of the delay, our
choice, the same eight channels suffice: 0.88 to 1.01 of the throughput at most 1.4 times the delay on the five
traces of hspa, which it was not trained on. The built-in table, learnt on generated links, has 0.96 to 1.1 of
the throughput, on city-drive a little more than the 1.1 asked for, at no more delay. So it is the states that
decide, not the number of channels.""",
)
def mdi1000(c: Claim) -> None:
    """The table of Verus was trained over 1000 cellular channels (MDI, 2021)."""
    teacher = c.run("teacher", block="CELL", trace="hspa", cc="verus:r=2")
    relative = c.run(
        "relative", block="CELL", trace="hspa", cc="mdi:model=trained-relative,users=1", seeds=[1, 2, 3, 4, 5]
    )
    levels = c.run(
        "levels", beside=True, block="CELL", trace="hspa", cc="mdi:model=trained-levels,users=1", seeds=[1, 2, 3, 4, 5]
    )
    built_in = c.run("built_in", beside=True, block="CELL", trace="hspa", cc="mdi", seeds=[1, 2, 3, 4, 5])
    published = c.run(
        "published",
        beside=True,
        block="CELL",
        trace="hspa",
        cc=["mdi:model=mdi/transMatrix_verus", "mdi:model=mdi/transMatrix_verus,sampler=closest,empty=paper,loss=ignore"],
        seeds=[1, 2, 3, 4, 5],
    )
    relative.core(
        "at least 0.8 of the throughput of Verus with R = 2 on every trace",
        lambda run: (
            run["throughput_mbps"].mean("seed", "cc", "start") / teacher["throughput_mbps"].mean("seed", "cc", "start")
            >= 0.8
        ).all(),
    )
    relative.core(
        "at most 1.1 times the throughput of Verus with R = 2 on every trace",
        lambda run: (
            run["throughput_mbps"].mean("seed", "cc", "start") / teacher["throughput_mbps"].mean("seed", "cc", "start")
            <= 1.1
        ).all(),
    )
    relative.full(
        "at most 1.5 times its mean delay on every trace",
        lambda run: (
            run["queue_delay_ms.mean"].mean("seed", "cc", "start")
            / teacher["queue_delay_ms.mean"].mean("seed", "cc", "start")
            <= 1.5
        ).all(),
    )
    levels.core(
        "with levels of the delay: at least 0.8 of the throughput on every trace",
        lambda run: (
            run["throughput_mbps"].mean("seed", "cc", "start") / teacher["throughput_mbps"].mean("seed", "cc", "start")
            >= 0.8
        ).all(),
    )
    levels.core(
        "with levels of the delay: at most 1.1 times the throughput on every trace",
        lambda run: (
            run["throughput_mbps"].mean("seed", "cc", "start") / teacher["throughput_mbps"].mean("seed", "cc", "start")
            <= 1.1
        ).all(),
    )
    levels.full(
        "with levels of the delay: at most 1.5 times the mean delay on every trace",
        lambda run: (
            run["queue_delay_ms.mean"].mean("seed", "cc", "start")
            / teacher["queue_delay_ms.mean"].mean("seed", "cc", "start")
            <= 1.5
        ).all(),
    )
    built_in.core(
        "the built-in table: at least 0.8 of the throughput on every trace",
        lambda run: (
            run["throughput_mbps"].mean("seed", "cc", "start") / teacher["throughput_mbps"].mean("seed", "cc", "start")
            >= 0.8
        ).all(),
    )
    built_in.core(
        "the built-in table: at most 1.1 times the throughput on every trace",
        lambda run: (
            run["throughput_mbps"].mean("seed", "cc", "start") / teacher["throughput_mbps"].mean("seed", "cc", "start")
            <= 1.1
        ).all(),
    )
    built_in.full(
        "the built-in table: at most 1.5 times the mean delay on every trace",
        lambda run: (
            run["queue_delay_ms.mean"].mean("seed", "cc", "start")
            / teacher["queue_delay_ms.mean"].mean("seed", "cc", "start")
            <= 1.5
        ).all(),
    )
    published.core(
        "the authors' own table: at least 0.8 of the throughput on every trace",
        lambda run: (
            run["throughput_mbps"].mean("seed", "start") / teacher["throughput_mbps"].mean("seed", "cc", "start") >= 0.8
        ).all(),
    )
    published.full(
        "the authors' own table: at most 1.5 times the mean delay on every trace",
        lambda run: (
            run["queue_delay_ms.mean"].mean("seed", "start")
            / teacher["queue_delay_ms.mean"].mean("seed", "cc", "start")
            <= 1.5
        ).all(),
    )


@claim(
    "Section 4.4",
    "component",
    "component",
    expected="built",
    tests=(
        "vsftpd",
        "lighttpd",
        "live_video_by_rtmp",
        "nginx_with_several_workers_works",
        "downloads_of_all_sizes_arrive_also_twenty_at_once",
    ),
    because="""With vsftpd, nginx, lighttpd and nginx-rtmp, unmodified, by preloading, in place of bftpd, Ryuuk and RTMPServer, of
which Debian has none.""",
)
def apps(c: Claim) -> None:
    """An FTP server, a web server and an RTMP server run with ALCC by replacing three calls."""


@claim(
    "Section 5",
    "component",
    "component",
    expected="built",
    tests=(
        "a_saturating_flow_reaches_the_capacity_of_every_recorded_trace",
        "impairments_are_those_of_the_model",
        "loss_and_queue_are_those_of_the_model",
    ),
    because="""cellpace link reads the same traces.""",
)
def testbed(c: Claim) -> None:
    """Paths are emulated with Mahimahi."""


@claim(
    "Section 5.1",
    "text",
    "virtual",
    expected="reproduced",
    original={
        "mean_mbps": [5.03, 9.98, 15.86, 8.76, 8.95, 6.13, 10.33],
        "traces": [
            "verizon-lte-short",
            "rapid-change",
            "highway-3g",
            "city-drive",
            "campus-walk",
            "highway-drive",
            "beachfront-walk",
        ],
    },
    because="""The authors published them. Their mean rates, over whole numbers of repetitions or as nearly so as matters, are
those tabulated in the specification; the paper prints none.""",
)
def traces(c: Claim) -> None:
    """Seven traces: 4G of Verizon, a rapidly changing one, 3G of Etisalat on a highway, in a city, on a campus, on
    another highway, on a beachfront."""
    whole = c.run("whole", block="CELL", trace="alcc", cc="fixed:cwnd=1pkts", duration="3600s", skip="0s")
    whole.core(
        "the mean rates are those of the published files within 1 %",
        lambda run: (
            (abs(run["capacity_mbps"].at(trace="verizon-lte-short") / (5.03 * mbit) - 1).mean() <= 0.01)
            & (abs(run["capacity_mbps"].at(trace="rapid-change") / (9.98 * mbit) - 1).mean() <= 0.01)
            & (abs(run["capacity_mbps"].at(trace="highway-3g") / (15.86 * mbit) - 1).mean() <= 0.01)
            & (abs(run["capacity_mbps"].at(trace="city-drive") / (8.76 * mbit) - 1).mean() <= 0.01)
            & (abs(run["capacity_mbps"].at(trace="campus-walk") / (8.95 * mbit) - 1).mean() <= 0.01)
            & (abs(run["capacity_mbps"].at(trace="highway-drive") / (6.13 * mbit) - 1).mean() <= 0.01)
            & (abs(run["capacity_mbps"].at(trace="beachfront-walk") / (10.33 * mbit) - 1).mean() <= 0.01)
        ),
    )


@claim(
    "Figure 5, section 5.2",
    "figure",
    "real",
    expected="open",
    because="""Figures over time were not recorded. Closes it: the runs of city-drive, highway-3g, beachfront-walk and
rapid-change with series of a second: correlation of throughput at least 0.9, median difference of delay at most
30 %, native with native again beside.""",
)
def fig5(c: Claim) -> None:
    """Over time, throughput and delay of Verus above TCP and native are almost identical on four traces."""


@claim(
    "Figure 6, section 5.2",
    "figure",
    "real",
    expected="in part",
    because="""The distributions of all packets' queue delays overlap by as much as those of native with native again, within
0.05. Throughput was recorded per run only, so its densities are not compared.""",
)
def fig6(c: Claim) -> None:
    """The densities of throughput and delay of Verus above TCP and native coincide."""
    cells = c.run("cells", recording="alcc-cells")
    cells.core(
        "the distributions of queue delay overlap by at least 0.9 on every trace",
        lambda run: (
            1
            - abs(
                run["delay_share"].at(driver="gate", cc="verus:r=2")
                - run["delay_share"].at(driver="native", cc="verus:r=2")
            ).sum("bin")
            / 2
            >= 0.9
        ).all(),
    )
    cells.full(
        "they overlap by at least what native with native again does, less 0.05",
        lambda run: (
            1
            - abs(
                run["delay_share"].at(driver="gate", cc="verus:r=2")
                - run["delay_share"].at(driver="native", cc="verus:r=2")
            ).sum("bin")
            / 2
            >= 1
            - abs(
                run["delay_share"].at(driver="again", cc="verus:r=2")
                - run["delay_share"].at(driver="native", cc="verus:r=2")
            ).sum("bin")
            / 2
            - 0.05
        ).all(),
    )
    cells.unmeasured("the same of the densities of throughput in windows of 500 ms")
    cells.chart(
        "lines",
        lambda run: run["delay_share"].at(cc="verus:r=2", trace="city-drive", driver=["gate", "native", "again"]),
        x="bin",
        group="driver",
        caption="Share of the packets per ms of queue delay on city-drive; the paper prints no values.",
    )


@claim(
    "Figure 7, section 5.2",
    "figure",
    "real",
    expected="reproduced",
    original={"delay_at_most": 1.15},
    because="""Quartiles of delay are those of all packets, in bins of 1 ms; quartiles of throughput those of ten runs.""",
)
def fig7(c: Claim) -> None:
    """The regions of 25 to 75 % and the medians of throughput and delay of Verus above TCP match native; the delay is
    at most 15 % higher."""
    cells = c.run("cells", recording="alcc-cells")
    cells.core(
        "median delay 0.85 to 1.15 of native on every trace",
        lambda run: (
            abs(
                run["queue_delay_ms.p50"].at(driver="gate", cc="verus:r=2").mean("run")
                / run["queue_delay_ms.p50"].at(driver="native", cc="verus:r=2").mean("run")
                - 1
            )
            <= 0.15
        ).all(),
    )
    cells.full(
        "first and third quartile of delay 0.85 to 1.15 of native",
        lambda run: (
            (
                abs(
                    run["queue_delay_ms.p25"].at(driver="gate", cc="verus:r=2")
                    / run["queue_delay_ms.p25"].at(driver="native", cc="verus:r=2")
                    - 1
                )
                <= 0.15
            ).all()
            & (
                abs(
                    run["queue_delay_ms.p75"].at(driver="gate", cc="verus:r=2")
                    / run["queue_delay_ms.p75"].at(driver="native", cc="verus:r=2")
                    - 1
                )
                <= 0.15
            ).all()
        ),
    )
    cells.full(
        "first and third quartile of throughput within 5 % of native",
        lambda run: (
            (
                abs(
                    run["throughput_mbps"].at(driver="gate", cc="verus:r=2").percentile(25, "run")
                    / run["throughput_mbps"].at(driver="native", cc="verus:r=2").percentile(25, "run")
                    - 1
                )
                <= 0.05
            ).all()
            & (
                abs(
                    run["throughput_mbps"].at(driver="gate", cc="verus:r=2").percentile(75, "run")
                    / run["throughput_mbps"].at(driver="native", cc="verus:r=2").percentile(75, "run")
                    - 1
                )
                <= 0.05
            ).all()
        ),
    )
    cells.chart(
        "table",
        lambda run: run["queue_delay_ms.p50"].at(driver=["gate", "native"], cc="verus:r=2").mean("run"),
        x="trace",
        group="driver",
        caption="Median queue delay; the paper prints no values.",
    )


@claim(
    "Figure 8, section 5.3",
    "figure",
    "real",
    expected="in part",
    because="""On rapid-change alone, three runs; quartiles were not recorded, so the 95th percentile stands for them. More
delay than native's there is none.""",
)
def fig8(c: Claim) -> None:
    """Sprout above TCP with acks inside the stream matches Sprout on rapid-change, with slightly more delay."""
    sprout = c.run("sprout", recording="alcc-sprout")
    sprout.core(
        "throughput within 5 % of native",
        lambda run: (
            abs(
                run["throughput_mbps"].at(driver="client-server").mean()
                / run["throughput_mbps"].at(driver="native").mean()
                - 1
            )
            <= 0.05
        ),
    )
    sprout.core(
        "median delay within 10 % of native",
        lambda run: (
            abs(
                run["queue_delay_ms.p50"].at(driver="client-server").mean()
                / run["queue_delay_ms.p50"].at(driver="native").mean()
                - 1
            )
            <= 0.1
        ),
    )
    sprout.full(
        "95th percentile of delay within 15 % of native",
        lambda run: (
            abs(
                run["queue_delay_ms.p95"].at(driver="client-server").mean()
                / run["queue_delay_ms.p95"].at(driver="native").mean()
                - 1
            )
            <= 0.15
        ),
    )
    sprout.unmeasured("on two more traces, and 25th and 75th percentiles of the delay 1 to 1.15 times native's")
    sprout.chart(
        "scatter",
        lambda run: run["throughput_mbps"].mean("run"),
        x=lambda run: run["queue_delay_ms.p50"].mean("run"),
        group="driver",
        caption="Throughput against the median queue delay on rapid-change; the paper prints no values.",
    )


@claim(
    "Figure 9, section 5.4",
    "figure",
    "real",
    expected="open",
    because="""Figures over time were not recorded. Closes it: the runs of verizon-lte-short, highway-3g, campus-walk and
beachfront-walk with series of a second, copa and copa:alcc: correlation of throughput at least 0.9, median
difference of delay at most 30 %.""",
)
def fig9(c: Claim) -> None:
    """Over time, throughput and delay of Copa above TCP and native are almost identical on four traces."""


@claim(
    "Figure 10, section 5.4",
    "figure",
    "real",
    expected="in part",
    because="""The distributions of all packets' queue delays overlap by as much as those of native with native again, within
0.05. Throughput was recorded per run only, so its densities are not compared.""",
)
def fig10(c: Claim) -> None:
    """The densities of throughput and delay of Copa above TCP and native coincide."""
    cells = c.run("cells", recording="alcc-cells")
    cells.core(
        "the distributions of queue delay overlap by at least 0.9 on every trace",
        lambda run: (
            1
            - abs(
                run["delay_share"].at(driver="gate", cc="copa") - run["delay_share"].at(driver="native", cc="copa")
            ).sum("bin")
            / 2
            >= 0.9
        ).all(),
    )
    cells.full(
        "they overlap by at least what native with native again does, less 0.05",
        lambda run: (
            1
            - abs(
                run["delay_share"].at(driver="gate", cc="copa") - run["delay_share"].at(driver="native", cc="copa")
            ).sum("bin")
            / 2
            >= 1
            - abs(
                run["delay_share"].at(driver="again", cc="copa") - run["delay_share"].at(driver="native", cc="copa")
            ).sum("bin")
            / 2
            - 0.05
        ).all(),
    )
    cells.unmeasured("the same of the densities of throughput in windows of 500 ms")
    cells.chart(
        "lines",
        lambda run: run["delay_share"].at(cc="copa", trace="city-drive", driver=["gate", "native", "again"]),
        x="bin",
        group="driver",
        caption="Share of the packets per ms of queue delay on city-drive; the paper prints no values.",
    )


@claim(
    "Figure 11, section 5.4",
    "figure",
    "real",
    expected="reproduced",
    original={"delay_at_most": 1.15},
    because="""Quartiles of delay are those of all packets, in bins of 1 ms; quartiles of throughput those of ten runs. On
highway-3g, which the paper excepts, a quartile of throughput is 6 % off here as well.""",
)
def fig11(c: Claim) -> None:
    """The regions of 25 to 75 % and the medians of throughput and delay of Copa above TCP match native but for the
    highway; the delay is at most 15 % higher."""
    cells = c.run("cells", recording="alcc-cells")
    cells.core(
        "median delay 0.85 to 1.15 of native on every trace",
        lambda run: (
            abs(
                run["queue_delay_ms.p50"].at(driver="gate", cc="copa").mean("run")
                / run["queue_delay_ms.p50"].at(driver="native", cc="copa").mean("run")
                - 1
            )
            <= 0.15
        ).all(),
    )
    cells.full(
        "first and third quartile of delay 0.85 to 1.15 of native",
        lambda run: (
            (
                abs(
                    run["queue_delay_ms.p25"].at(driver="gate", cc="copa")
                    / run["queue_delay_ms.p25"].at(driver="native", cc="copa")
                    - 1
                )
                <= 0.15
            ).all()
            & (
                abs(
                    run["queue_delay_ms.p75"].at(driver="gate", cc="copa")
                    / run["queue_delay_ms.p75"].at(driver="native", cc="copa")
                    - 1
                )
                <= 0.15
            ).all()
        ),
    )
    cells.full(
        "first and third quartile of throughput within 5 % of native, but for highway-3g",
        lambda run: (
            (
                abs(
                    run["throughput_mbps"]
                    .at(driver="gate", cc="copa")
                    .without(trace="highway-3g")
                    .percentile(25, "run")
                    / run["throughput_mbps"]
                    .at(driver="native", cc="copa")
                    .without(trace="highway-3g")
                    .percentile(25, "run")
                    - 1
                )
                <= 0.05
            ).all()
            & (
                abs(
                    run["throughput_mbps"]
                    .at(driver="gate", cc="copa")
                    .without(trace="highway-3g")
                    .percentile(75, "run")
                    / run["throughput_mbps"]
                    .at(driver="native", cc="copa")
                    .without(trace="highway-3g")
                    .percentile(75, "run")
                    - 1
                )
                <= 0.05
            ).all()
        ),
    )
    cells.chart(
        "table",
        lambda run: run["queue_delay_ms.p50"].at(driver=["gate", "native"], cc="copa").mean("run"),
        x="trace",
        group="driver",
        caption="Median queue delay; the paper prints no values.",
    )


@claim(
    "Figure 12, section 5.5",
    "figure",
    "real",
    expected="in part",
    headline="Works above any TCP: Cubic and Reno alike",
    because="""Above Reno Verus is native's equal. Above Cubic its median delay is up to 14 % lower than native, and up to 13 %
lower than above Reno, at up to 3 % less throughput: the window of Cubic is the lesser one at times. This kernel
has no tcp_bic: BIC below is open.""",
)
def fig12(c: Claim) -> None:
    """Verus above Cubic, BIC and Reno performs alike."""
    cells = c.run("cells", recording="alcc-cells")
    cells.core(
        "above Cubic: throughput 0.9 to 1.1 and median delay 0.85 to 1.15 of native on every trace",
        lambda run: (
            (
                abs(
                    run["throughput_mbps"].at(driver="cubic", cc="verus:r=2").mean("run")
                    / run["throughput_mbps"].at(driver="native", cc="verus:r=2", run=["0", "1", "2"]).mean("run")
                    - 1
                )
                <= 0.1
            ).all()
            & (
                abs(
                    run["queue_delay_ms.p50"].at(driver="cubic", cc="verus:r=2").mean("run")
                    / run["queue_delay_ms.p50"].at(driver="native", cc="verus:r=2", run=["0", "1", "2"]).mean("run")
                    - 1
                )
                <= 0.15
            ).all()
        ),
    )
    cells.core(
        "above Reno: throughput 0.9 to 1.1 and median delay 0.85 to 1.15 of native on every trace",
        lambda run: (
            (
                abs(
                    run["throughput_mbps"].at(driver="reno", cc="verus:r=2").mean("run")
                    / run["throughput_mbps"].at(driver="native", cc="verus:r=2", run=["0", "1", "2"]).mean("run")
                    - 1
                )
                <= 0.1
            ).all()
            & (
                abs(
                    run["queue_delay_ms.p50"].at(driver="reno", cc="verus:r=2").mean("run")
                    / run["queue_delay_ms.p50"].at(driver="native", cc="verus:r=2", run=["0", "1", "2"]).mean("run")
                    - 1
                )
                <= 0.15
            ).all()
        ),
    )
    cells.full(
        "above Cubic: throughput within 5 % of native",
        lambda run: (
            abs(
                run["throughput_mbps"].at(driver="cubic", cc="verus:r=2").mean("run")
                / run["throughput_mbps"].at(driver="native", cc="verus:r=2", run=["0", "1", "2"]).mean("run")
                - 1
            )
            <= 0.05
        ).all(),
    )
    cells.full(
        "above Reno: throughput within 5 % of native",
        lambda run: (
            abs(
                run["throughput_mbps"].at(driver="reno", cc="verus:r=2").mean("run")
                / run["throughput_mbps"].at(driver="native", cc="verus:r=2", run=["0", "1", "2"]).mean("run")
                - 1
            )
            <= 0.05
        ).all(),
    )
    cells.full(
        "above Cubic and above Reno: within 5 % of each other in throughput, 10 % in the median delay",
        lambda run: (
            (
                abs(
                    run["throughput_mbps"].at(driver="cubic", cc="verus:r=2").mean("run")
                    / run["throughput_mbps"].at(driver="reno", cc="verus:r=2").mean("run")
                    - 1
                )
                <= 0.05
            ).all()
            & (
                abs(
                    run["queue_delay_ms.p50"].at(driver="cubic", cc="verus:r=2").mean("run")
                    / run["queue_delay_ms.p50"].at(driver="reno", cc="verus:r=2").mean("run")
                    - 1
                )
                <= 0.1
            ).all()
        ),
    )
    cells.chart(
        "scatter",
        lambda run: (
            run["throughput_mbps"]
            .at(cc="verus:r=2", driver=["native", "cubic", "reno", "bbr"], trace="city-drive")
            .mean("run")
        ),
        x=lambda run: (
            run["queue_delay_ms.p50"]
            .at(cc="verus:r=2", driver=["native", "cubic", "reno", "bbr"], trace="city-drive")
            .mean("run")
        ),
        group="driver",
        caption="Throughput against the median queue delay on city-drive, by the TCP below; the paper prints no values.",
    )


@claim(
    "Figure 13, section 5.5",
    "figure",
    "real",
    expected="in part",
    because="""Above Cubic Copa has 0.94 of the throughput of native on highway-3g, the fastest trace; elsewhere the two are
within 5 %. This kernel has no tcp_bic: BIC below is open.""",
)
def fig13(c: Claim) -> None:
    """Copa above Cubic, BIC and Reno performs alike."""
    cells = c.run("cells", recording="alcc-cells")
    cells.core(
        "above Cubic: throughput 0.9 to 1.1 and median delay 0.85 to 1.15 of native on every trace",
        lambda run: (
            (
                abs(
                    run["throughput_mbps"].at(driver="cubic", cc="copa").mean("run")
                    / run["throughput_mbps"].at(driver="native", cc="copa", run=["0", "1", "2"]).mean("run")
                    - 1
                )
                <= 0.1
            ).all()
            & (
                abs(
                    run["queue_delay_ms.p50"].at(driver="cubic", cc="copa").mean("run")
                    / run["queue_delay_ms.p50"].at(driver="native", cc="copa", run=["0", "1", "2"]).mean("run")
                    - 1
                )
                <= 0.15
            ).all()
        ),
    )
    cells.core(
        "above Reno: throughput 0.9 to 1.1 and median delay 0.85 to 1.15 of native on every trace",
        lambda run: (
            (
                abs(
                    run["throughput_mbps"].at(driver="reno", cc="copa").mean("run")
                    / run["throughput_mbps"].at(driver="native", cc="copa", run=["0", "1", "2"]).mean("run")
                    - 1
                )
                <= 0.1
            ).all()
            & (
                abs(
                    run["queue_delay_ms.p50"].at(driver="reno", cc="copa").mean("run")
                    / run["queue_delay_ms.p50"].at(driver="native", cc="copa", run=["0", "1", "2"]).mean("run")
                    - 1
                )
                <= 0.15
            ).all()
        ),
    )
    cells.full(
        "above Cubic: throughput within 5 % of native",
        lambda run: (
            abs(
                run["throughput_mbps"].at(driver="cubic", cc="copa").mean("run")
                / run["throughput_mbps"].at(driver="native", cc="copa", run=["0", "1", "2"]).mean("run")
                - 1
            )
            <= 0.05
        ).all(),
    )
    cells.full(
        "above Reno: throughput within 5 % of native",
        lambda run: (
            abs(
                run["throughput_mbps"].at(driver="reno", cc="copa").mean("run")
                / run["throughput_mbps"].at(driver="native", cc="copa", run=["0", "1", "2"]).mean("run")
                - 1
            )
            <= 0.05
        ).all(),
    )
    cells.full(
        "above Cubic and above Reno: within 5 % of each other in throughput, 10 % in the median delay",
        lambda run: (
            (
                abs(
                    run["throughput_mbps"].at(driver="cubic", cc="copa").mean("run")
                    / run["throughput_mbps"].at(driver="reno", cc="copa").mean("run")
                    - 1
                )
                <= 0.05
            ).all()
            & (
                abs(
                    run["queue_delay_ms.p50"].at(driver="cubic", cc="copa").mean("run")
                    / run["queue_delay_ms.p50"].at(driver="reno", cc="copa").mean("run")
                    - 1
                )
                <= 0.1
            ).all()
        ),
    )
    cells.chart(
        "scatter",
        lambda run: (
            run["throughput_mbps"]
            .at(cc="copa", driver=["native", "cubic", "reno", "bbr"], trace="city-drive")
            .mean("run")
        ),
        x=lambda run: (
            run["queue_delay_ms.p50"]
            .at(cc="copa", driver=["native", "cubic", "reno", "bbr"], trace="city-drive")
            .mean("run")
        ),
        group="driver",
        caption="Throughput against the median queue delay on city-drive, by the TCP below; the paper prints no values.",
    )


@claim(
    "Section 5.6",
    "text",
    "field",
    expected="not testable here",
    because="""No phone; and the paper has no figure to compare with.""",
)
def android_cpu(c: Claim) -> None:
    """On Android the cost is not compared: the native form does not run there."""


@claim(
    "Figure 15, section 5.7",
    "figure",
    "field",
    expected="not testable here",
    because="""It needs a live network. docs/how-to/live-network.md says how to measure on one with the same programs. Emulated
links stand in for it in the other claims.""",
)
def fig15(c: Claim) -> None:
    """The live set-up: a phone tethered to a laptop, a server on a fibre line."""


@claim(
    "Figure 16, section 5.7",
    "figure",
    "field",
    expected="not testable here",
    because="""It needs a live network. Stand-in, to be recorded: Verus with R=2 above Cubic on UMTS, LTE and highway-3g for
300 s with a sample each 100 ms: its window at most TCP's in 95 % of the samples, TCP's flat (coefficient of
variation at most 0.15 after 30 s).""",
)
def fig16(c: Claim) -> None:
    """On 3G the window of Verus above TCP is always below TCP's, and TCP's is flat."""


@claim(
    "Figure 17, section 5.7",
    "figure",
    "field",
    expected="not testable here",
    because="""It needs a live network. Stand-in, to be recorded: Verus with R=2 above Cubic on UMTS, LTE and highway-3g for
300 s with a sample each 100 ms: its window at most TCP's in 95 % of the samples, TCP's flat (coefficient of
variation at most 0.15 after 30 s).""",
)
def fig17(c: Claim) -> None:
    """On 4G the window of Verus above TCP is always below TCP's, and TCP's is flat."""


@claim(
    "Figure 18, section 5.7",
    "figure",
    "real",
    expected="open",
    original={"buffers_kb": [100, 500, 1000, 5000]},
    because="""Closes it: plain Cubic and Verus with R=2 above it with --sndbuf of these sizes at 20 Mbit/s, 100 ms, without a
limit of the queue, 60 s: the final windows in the order of the buffers, 0.5 to 1.1 of what a buffer can hold.""",
)
def fig18(c: Claim) -> None:
    """TCP's window flattens at the send buffer: 100 kB, 500 kB, 1 MB and 5 MB."""


@claim(
    "Figure 19, section 5.7",
    "figure",
    "field",
    expected="not testable here",
    because="""It needs a live network. docs/how-to/live-network.md says how to measure on one; on emulated links see alcc-fig7
and alcc-fig11.""",
)
def fig19(c: Claim) -> None:
    """On live 3G the throughput above TCP is that of native, whose delay is slightly higher and at times seconds."""


@claim(
    "Figure 20, section 5.8",
    "figure",
    "real",
    expected="reproduced",
    original={"loss_percent": 1},
    because="""The gate has 0.60 (Verus) and 0.63 (Copa) of native's throughput.""",
)
def fig20(c: Claim) -> None:
    """With 1 % random loss on 4G of Verizon, ALCC does not match native: the TCP below backs off."""
    loss = c.run("loss", recording="alcc-loss")
    loss.core(
        "with 1 % loss at most 0.8 of the throughput of native",
        lambda run: (
            run["throughput_mbps"]
            .at(trace="verizon-lte-short", loss_percent="1", driver="gate", cc=["verus:r=2", "copa"])
            .mean("run")
            / run["throughput_mbps"]
            .at(trace="verizon-lte-short", loss_percent="1", driver="native", cc=["verus:r=2", "copa"])
            .mean("run")
            <= 0.8
        ).all(),
    )
    loss.core(
        "without loss at least 0.95",
        lambda run: (
            run["throughput_mbps"]
            .at(trace="verizon-lte-short", loss_percent="0", driver="gate", cc=["verus:r=2", "copa"])
            .mean("run")
            / run["throughput_mbps"]
            .at(trace="verizon-lte-short", loss_percent="0", driver="native", cc=["verus:r=2", "copa"])
            .mean("run")
            >= 0.95
        ).all(),
    )
    loss.chart(
        "lines",
        lambda run: run["throughput_mbps"].at(trace="verizon-lte-short", cc="verus:r=2").mean("run"),
        x="loss_percent",
        group="driver",
        caption="Throughput of Verus with R=2 on verizon-lte-short by random loss; the paper has 1 % only and prints no values.",
    )


@claim(
    "Section 5.8.1",
    "text",
    "real",
    expected="reproduced",
    because="""The kernel driver holds the window of TCP: it has 0.98 and more of native's throughput with 1 % loss, where the
gate has 0.32 to 0.63. With 2 % it has 0.95 and more.""",
)
def sec581(c: Claim) -> None:
    """A remedy against random loss is to hold the window of TCP (left to future work)."""
    loss = c.run("loss", recording="alcc-loss")
    loss.core(
        "kernel driver: at least 0.95 of the throughput of native with 1 % loss, on both links",
        lambda run: (
            run["throughput_mbps"].at(loss_percent="1", driver="kernel").mean("run")
            / run["throughput_mbps"].at(loss_percent="1", driver="native").mean("run")
            >= 0.95
        ).all(),
    )
    loss.full(
        "at least 0.95 with 2 % loss as well",
        lambda run: (
            run["throughput_mbps"].at(loss_percent="2", driver="kernel").mean("run")
            / run["throughput_mbps"].at(loss_percent="2", driver="native").mean("run")
            >= 0.95
        ).all(),
    )


@claim(
    "Figure 21, section 5.9",
    "figure",
    "model",
    expected="in part",
    original={"rate_mbps": 40},
    because="""OpenVPN over TCP carries the packets between two programs of one machine, without a router. What is recorded
went through a stand-in (evaluation/alcc_tunnel.py), whose devices queue 500 packets, not OpenVPN's 100.""",
)
def fig21(c: Claim) -> None:
    """The set-up of the VPN: a router with a tunnel over TCP between two servers, 40 Mbit/s."""


@claim(
    "Figure 22, section 5.9",
    "figure",
    "real",
    expected="open",
    because="""Recorded is one run with the paper's Copa (delta 0.5) and a queue of 500 packets beside TCP that is always on:
both forms yield, 4.4 Mbit/s above TCP and 3.6 native of 40. The authors' program has a delta of its own
(copa:alcc), and OpenVPN queues 100 packets. Closes it: the recording anew, through OpenVPN, with copa:alcc and
TCP on and off at random, five runs of 120 s.""",
)
def fig22(c: Claim) -> None:
    """In the tunnel Copa above TCP is fair to a TCP flow that is on and off; native Copa, over UDP, is not."""
    tunnels = c.run("tunnels", recording="alcc-tunnels")
    tunnels.chart(
        "lines",
        lambda run: run["first_mbps"].at(second="plain").mean("run"),
        x="time",
        group="first",
        caption="Copa beside TCP that is always on, queue of 500 packets: above TCP (alcc) and native.",
    )


@claim(
    "Figure 23, section 5.9",
    "figure",
    "real",
    expected="in part",
    original={"udp_mbps": [10, 20, 30], "tunnel_mbps": 40},
    because="""At 10 Mbit/s, the only rate recorded, one run: UDP has what it sends, 5.0 Mbit/s in the mean over on and off,
and Copa nine tenths of the rest. 20 and 30 Mbit/s are open.""",
)
def fig23(c: Claim) -> None:
    """In the tunnel UDP of 10 to 30 Mbit/s that is on and off has its full rate beside Copa above TCP."""
    tunnels = c.run("tunnels", recording="alcc-tunnels")
    tunnels.core(
        "UDP has at least 0.95 of the 10 Mbit/s that it sends half of the time",
        lambda run: run["second_mbps"].at(first="alcc", second="onoff").mean() >= 0.95 * (5 * mbit),
    )
    tunnels.core(
        "Copa has at least 0.8 of what the tunnel carries of two flows, less UDP",
        lambda run: (
            run["first_mbps"].at(first="alcc", second="onoff").mean()
            / (
                run["first_mbps"].at(first="alcc", second="plain").mean()
                + run["second_mbps"].at(first="alcc", second="plain").mean()
                - run["second_mbps"].at(first="alcc", second="onoff").mean()
            )
            >= 0.8
        ),
    )
    tunnels.unmeasured("the same beside UDP of 20 and of 30 Mbit/s")
    tunnels.chart(
        "lines",
        lambda run: run["first_mbps"].at(second="onoff").mean("run"),
        x="time",
        group="first",
        caption="Copa beside UDP of 10 Mbit/s, 5 s on and 5 s off: above TCP (alcc) and native.",
    )


@claim(
    "Figure 24, section 5.9",
    "figure",
    "real",
    expected="open",
    original={"udp_mbps": [10, 20, 30], "tunnel_mbps": 40},
    because="""The tunnel was run with Copa only. Closes it: Verus with R=2 above Cubic beside UDP of 10, 20 and 30 Mbit/s,
queues of 100 packets, five runs of 120 s.""",
)
def fig24(c: Claim) -> None:
    """In the tunnel UDP that is on and off has its full rate beside Verus above TCP."""


@claim(
    "Section 5.9",
    "component",
    "component",
    expected="built",
    tests=(
        "flows_that_share_a_window_keep_the_queue_of_one",
        "flows_that_share_have_one_window_between_them_and_others_their_own",
        "clients_of_a_proxy_may_share_a_window",
    ),
    because="""--share gives flows to one peer one window between them.""",
)
def manager(c: Claim) -> None:
    """Several ALCC flows of a host need a congestion manager (future work)."""


@claim(
    "Sections 1 and 4",
    "component",
    "component",
    expected="built",
    tests=("nginx_with_http2_over_tls", "openssh_sftp", "an_upload_by_sftp_under_the_controller"),
)
def tls(c: Claim) -> None:
    """TLS and the application's protocol stay as they are."""


@claim(
    "Section 5.7",
    "text",
    "field",
    expected="not testable here",
    because="""It needs a live network. Stand-in, to be recorded with alcc-fig16 and alcc-fig17: at most 0.1 % of the packets
retransmitted by Verus with R=2 above Cubic.""",
)
def deepbuffer(c: Claim) -> None:
    """Deep buffers hide losses: hardly any on 3G and 4G."""
