"""Model-driven delay-based congestion control (2017)."""

from papers.claims import Claim, claim
from papers.figures import MB, mbit, overlap, s, spearman

NETWORK = '"Min queue length: 3 Mbit, Max queue length: 9 Mbit, Drop probability: 0.1%" (table 1)'
EVALUATED = ["mdi/channel08", "mdi/channel09", "mdi/channel10", "mdi/channel11"]
"""Channels that are none of those with which tables are trained."""


@claim(
    "Abstract",
    "text",
    "virtual",
    expected="reproduced",
    headline="A table learnt from Verus does what Verus does",
    original={"note": "no values printed"},
)
def abstract(c: Claim) -> None:
    """A model learnt from a protocol performs like it on channels that it was not trained on."""
    teacher = c.run(
        "teacher",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="verus:r=2",
        flows=[1, 2, 3, 4],
        duration="300s",
        seeds=[1],
    )
    model = c.run(
        "model",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=trained-absolute-2ms,users={flows}",
        flows=[1, 2, 3, 4],
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    model.core(
        "mean throughput, model by teacher, is between 0.95 and 1.05",
        lambda run: (
            ((run["throughput_mbps"].mean("cc", "seed") / teacher["throughput_mbps"].mean("cc", "seed")).mean() >= 0.95)
            & (
                (run["throughput_mbps"].mean("cc", "seed") / teacher["throughput_mbps"].mean("cc", "seed")).mean()
                <= 1.05
            )
        ),
    )
    model.core(
        "mean one-way delay, model by teacher, is at most 1.4",
        lambda run: (
            (
                run["one_way_delay_ms.mean"].mean("cc", "seed") / teacher["one_way_delay_ms.mean"].mean("cc", "seed")
            ).mean()
            <= 1.4
        ),
    )
    model.full(
        "every channel and number of users is within 0.9 and 1.1 of the throughput, and twice the delay",
        lambda run: (
            (run["throughput_mbps"].mean("cc", "seed") / teacher["throughput_mbps"].mean("cc", "seed") >= 0.9).all()
            & (run["throughput_mbps"].mean("cc", "seed") / teacher["throughput_mbps"].mean("cc", "seed") <= 1.1).all()
            & (
                run["one_way_delay_ms.mean"].mean("cc", "seed") / teacher["one_way_delay_ms.mean"].mean("cc", "seed")
                <= 2
            ).all()
        ),
    )
    model.chart(
        "bars",
        lambda run: run["one_way_delay_ms.mean"].mean("trace", "seed"),
        x="flows",
        group="cc",
        caption="Mean one-way delay of the model in ms; the paper prints no values.",
    )


@claim(
    "Figure 1, section 3",
    "figure",
    "virtual",
    expected="reproduced",
    original={"note": "a schema without values"},
    because="""The fixed link has the channel's mean rate. At 12 Mbit/s, over the same 300 s, it is 3.7 times: Verus' first
slow start fills a smaller link more, and takes up nearly all of the box there; from 10 s on the channel's is
170 times as large.""",
)
def fig1(c: Claim) -> None:
    """Delay and window lie in a region that is small for fixed networks and large for cellular ones."""
    c.train("fixed", traces=["constant:20mbit"], users=[1], duration="300s")
    c.train("cellular", traces=["mdi/channel08"], users=[1], duration="300s")
    samples = c.run("samples", train=["fixed", "cellular"])
    samples.core(
        "the box with 99 % of delays and windows is at least four times as large on the channel as on a constant link",
        lambda run: run["table.area"].at(train="cellular").mean() / run["table.area"].at(train="fixed").mean() >= 4,
    )
    samples.chart(
        "scatter",
        lambda run: run["sample.window_packets"],
        x=lambda run: run["sample.delay_ms"],
        group="train",
        caption="400 samples each of Verus' largest delay and window in an epoch: 20 Mbit/s (fixed) and channel 08 (cellular).",
    )


@claim(
    "Figure 2, section 3.1",
    "figure",
    "component",
    expected="built",
    tests=("mdi_t1_", "mdi_t2_", "mdi_t4_", "mdi_t8_", "mdi_t9_"),
)
def fig2(c: Claim) -> None:
    """A state is a pair of delay and window, and a matrix has the probability of going from each state to each other."""


@claim(
    "Sections 3.2 and 5.1",
    "text",
    "virtual",
    expected="in part",
    original={"note": "no values printed"},
    because="""The walk as printed has the throughput of the teacher (1.02 times) and 1.8 times its delay. Choosing the share
that is nearest to a uniform number takes rare windows more often than they came.""",
)
def walk(c: Claim) -> None:
    """A guided random walk: of the states with the delay seen, the one whose share is nearest to a uniform number;
    where there is none, the window goes down by one until there is."""
    teacher = c.run(
        "teacher",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="verus:r=2",
        flows=[1, 2, 3, 4],
        duration="300s",
        seeds=[1],
    )
    paper = c.run(
        "paper",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=trained-absolute-2ms,users={flows},sampler=closest,empty=paper,loss=ignore",
        flows=[1, 2, 3, 4],
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    c.run(
        "ours",
        beside=True,
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=trained-absolute-2ms,users={flows}",
        flows=[1, 2, 3, 4],
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    paper.core(
        "mean throughput of the walk as printed, by the teacher, is between 0.9 and 1.1",
        lambda run: (
            ((run["throughput_mbps"].mean("cc", "seed") / teacher["throughput_mbps"].mean("cc", "seed")).mean() >= 0.9)
            & (
                (run["throughput_mbps"].mean("cc", "seed") / teacher["throughput_mbps"].mean("cc", "seed")).mean()
                <= 1.1
            )
        ),
    )
    paper.core(
        "its mean delay is at most twice the teacher",
        lambda run: (
            (
                run["one_way_delay_ms.mean"].mean("cc", "seed") / teacher["one_way_delay_ms.mean"].mean("cc", "seed")
            ).mean()
            <= 2
        ),
    )
    paper.full(
        "its mean delay is at most 1.4 times the teacher",
        lambda run: (
            (
                run["one_way_delay_ms.mean"].mean("cc", "seed") / teacher["one_way_delay_ms.mean"].mean("cc", "seed")
            ).mean()
            <= 1.4
        ),
    )
    paper.chart(
        "bars",
        lambda run: run["one_way_delay_ms.mean"].mean("trace", "seed"),
        x="flows",
        group="cc",
        caption="Mean one-way delay of the walk as printed in ms; the paper prints no values.",
    )


@claim("Figure 3, section 4", "figure", "component", expected="built", tests=("mdi_t9_", "mdi_t13_"))
def fig3(c: Claim) -> None:
    """A model is trained from samples of a controller, and evaluated where it was not trained."""


@claim("Section 4.1", "text", "component", expected="built", tests=("mdi_t3_", "mdi_t13_"))
def samples(c: Claim) -> None:
    """Samples of delay, window and packets sent in each epoch may come from simulation."""


@claim(
    "Section 4.1",
    "text",
    "real",
    expected="reproduced",
    original={"note": "no values printed"},
    because="""Four minutes of real packets over emulated links of four channels make a table that runs as one of the same
minutes in virtual time does.""",
)
def real_samples(c: Claim) -> None:
    """Samples may come from a real deployment."""
    recorded = c.run("recorded", recording="mdi-samples")
    recorded.core(
        "throughput of the table of real samples, by that of virtual ones, is 0.9 to 1.1",
        lambda run: (
            abs(
                run["throughput_mbps"].at(samples="real").mean() / run["throughput_mbps"].at(samples="virtual").mean()
                - 1
            )
            <= 0.1
        ),
    )
    recorded.core(
        "its delay is 0.8 to 1.25 times",
        lambda run: (
            (
                run["one_way_delay_ms.mean"].at(samples="real").mean()
                / run["one_way_delay_ms.mean"].at(samples="virtual").mean()
                >= 0.8
            )
            & (
                run["one_way_delay_ms.mean"].at(samples="real").mean()
                / run["one_way_delay_ms.mean"].at(samples="virtual").mean()
                <= 1.25
            )
        ),
    )
    recorded.chart(
        "bars",
        lambda run: run["one_way_delay_ms.mean"].mean("run"),
        x="samples",
        caption="Mean one-way delay on channel 08 of tables of real and of virtual samples; the paper prints no values.",
    )


@claim("Section 4.2", "text", "component", expected="built", tests=("mdi_t2_", "mdi_t5_"))
def truncation(c: Claim) -> None:
    """What is rare is left out, and delays are quantized."""


@claim(
    "Section 5", "text", "component", expected="built", tests=("mdi_t6_", "mdi_t7_", "mdi_t10_", "mdi_t11_", "mdi_t12_")
)
def sender(c: Claim) -> None:
    """The sender walks through the matrix without a slow start, and the receiver does nothing but acknowledge."""


@claim(
    "Figure 4, section 6.1",
    "figure",
    "component",
    expected="built",
    tests=("red_", "every_form_of_the_guide_is_read_and_written_back"),
)
def fig4(c: Claim) -> None:
    """The simulated network has a modified router under RED, from 3 to 9 Mbit with a drop probability of 0.1 %."""


@claim(
    "Table 1, section 6.1",
    "table",
    "virtual",
    expected="in part",
    needs_traces=True,
    original={"samples": [290000, 580000, 850000, 920000]},
    because="""One to three users as in the table. Four give 1.2 million, 300 000 a user as before; the paper has 920 000, as
if a quarter of what four users sent lay outside of its ranges.""",
)
def table1(c: Claim) -> None:
    """Five channels of 300 s give some 290 000, 580 000, 850 000 and 920 000 samples of one to four users."""
    c.train(
        "one", traces=["mdi/channel00", "mdi/channel01", "mdi/channel02", "mdi/channel03", "mdi/channel04"], users=[1]
    )
    c.train(
        "two", traces=["mdi/channel00", "mdi/channel01", "mdi/channel02", "mdi/channel03", "mdi/channel04"], users=[2]
    )
    c.train(
        "three", traces=["mdi/channel00", "mdi/channel01", "mdi/channel02", "mdi/channel03", "mdi/channel04"], users=[3]
    )
    c.train(
        "four", traces=["mdi/channel00", "mdi/channel01", "mdi/channel02", "mdi/channel03", "mdi/channel04"], users=[4]
    )
    tables = c.run("tables", train=["one", "two", "three", "four"])
    tables.core(
        "one, two and three users give their number times 300 000 samples, within 10 %",
        lambda run: (
            (abs(run["table.samples"].at(train="one").mean() / 300000 - 1) <= 0.1)
            & (abs(run["table.samples"].at(train="two").mean() / 600000 - 1) <= 0.1)
            & (abs(run["table.samples"].at(train="three").mean() / 900000 - 1) <= 0.1)
        ),
    )
    tables.full(
        "four users give 920 000, within 10 %",
        lambda run: abs(run["table.samples"].at(train="four").mean() / 920000 - 1) <= 0.1,
    )
    tables.chart(
        "table",
        lambda run: run["table.samples"].mean("start", "seed"),
        x="train",
        caption="Samples by the number of users; in brackets the paper's.",
        original={"": {"one": 290000, "two": 580000, "three": 850000, "four": 920000}},
    )


@claim(
    "Table 2, section 6.1",
    "table",
    "virtual",
    expected="reproduced",
    original={"rows": [25488, 12744, 5112, 2556, 1296], "files_mb": [2400, 620, 100, 25, 7]},
)
def table2(c: Claim) -> None:
    """At 1, 2, 5, 10 and 20 ms a matrix has 25488, 12744, 5112, 2556 and 1296 rows, in files of 2.4 GB, 620 MB, 100
    MB, 25 MB and 7 MB."""
    c.train(
        "1ms",
        traces=["mdi/channel00", "mdi/channel01", "mdi/channel02", "mdi/channel03", "mdi/channel04"],
        users=[1],
        states="absolute:delay=20..727/1,window=0..35/1",
    )
    c.train(
        "2ms",
        traces=["mdi/channel00", "mdi/channel01", "mdi/channel02", "mdi/channel03", "mdi/channel04"],
        users=[1],
        states="absolute:delay=20..727/2,window=0..35/1",
    )
    c.train(
        "5ms",
        traces=["mdi/channel00", "mdi/channel01", "mdi/channel02", "mdi/channel03", "mdi/channel04"],
        users=[1],
        states="absolute:delay=20..727/5,window=0..35/1",
    )
    c.train(
        "10ms",
        traces=["mdi/channel00", "mdi/channel01", "mdi/channel02", "mdi/channel03", "mdi/channel04"],
        users=[1],
        states="absolute:delay=20..727/10,window=0..35/1",
    )
    c.train(
        "20ms",
        traces=["mdi/channel00", "mdi/channel01", "mdi/channel02", "mdi/channel03", "mdi/channel04"],
        users=[1],
        states="absolute:delay=20..727/20,window=0..35/1",
    )
    tables = c.run("tables", train=["1ms", "2ms", "5ms", "10ms", "20ms"])
    tables.core(
        "on the paper's ranges of delay and window the numbers of rows are the paper's",
        lambda run: (
            (run["table.states"].at(train="1ms").mean() == 25488)
            & (run["table.states"].at(train="2ms").mean() == 12744)
            & (run["table.states"].at(train="5ms").mean() == 5112)
            & (run["table.states"].at(train="10ms").mean() == 2556)
            & (run["table.states"].at(train="20ms").mean() == 1296)
        ),
        bound="paper",
    )
    tables.full(
        "a probability of four bytes for each pair of states makes files as large, within 15 %",
        lambda run: (
            (abs(run["table.dense_bytes"].at(train="1ms").mean() / (2400 * MB) - 1) <= 0.15)
            & (abs(run["table.dense_bytes"].at(train="2ms").mean() / (620 * MB) - 1) <= 0.15)
            & (abs(run["table.dense_bytes"].at(train="5ms").mean() / (100 * MB) - 1) <= 0.15)
            & (abs(run["table.dense_bytes"].at(train="10ms").mean() / (25 * MB) - 1) <= 0.15)
            & (abs(run["table.dense_bytes"].at(train="20ms").mean() / (7 * MB) - 1) <= 0.15)
        ),
    )
    tables.chart(
        "table",
        lambda run: run["table.states"].mean("start", "seed"),
        x="train",
        caption="Rows of the matrix by the width of delays; in brackets the paper's.",
        original={"": {"1ms": 25488, "2ms": 12744, "5ms": 5112, "10ms": 2556, "20ms": 1296}},
    )
    tables.chart(
        "table",
        lambda run: run["table.file_bytes"].mean("start", "seed"),
        x="train",
        caption="Size of our file of the same table, which has what was seen only.",
    )
    tables.chart(
        "table",
        lambda run: run["table.memory_bytes"].mean("start", "seed"),
        x="train",
        caption="Size of the table in memory, as the kernel walks it.",
    )


@claim("Figure 5, section 6.2", "figure", "virtual", expected="reproduced", original={"note": "no values printed"})
def fig5(c: Claim) -> None:
    """The matrix at 1 ms is sparse, with transitions to the same and neighbouring states, denser at small windows."""
    c.train(
        "paper",
        traces=["mdi/channel00", "mdi/channel01", "mdi/channel02", "mdi/channel03", "mdi/channel04"],
        users=[1],
        states="absolute:delay=40..747/1,window=0..35/1",
    )
    matrix = c.run("matrix", train="paper")
    matrix.core(
        "among the first ten delays fewer transitions lead to smaller delays than to larger ones",
        lambda run: run["table.below"].mean() < run["table.above"].mean(),
    )
    matrix.core(
        "of what stays at a delay at least half stays within five windows, at each of the first ten delays",
        lambda run: run["delay.near"].where(run["delay.value"] <= 49).min() >= 0.5,
    )
    matrix.core(
        "filled cells in a row become fewer with the window (rank correlation)",
        lambda run: spearman(run["window.packets"], run["window.cells_per_row"]) <= -0.5,
    )
    matrix.chart(
        "heatmap",
        "transitions",
        caption="The first ten delays; each row is divided by its sum. Without colour: never seen. The paper prints no values.",
    )
    matrix.chart("heatmap", "zoom", caption="The delay with the most cells.")
    matrix.chart(
        "lines",
        lambda run: run["window.cells_per_row"].mean("train", "start", "seed"),
        x="window",
        caption="Filled cells in a row by the window, among the first ten delays.",
    )


@claim("Figure 6, section 6.2", "figure", "virtual", expected="reproduced", original={"note": "no values printed"})
def fig6(c: Claim) -> None:
    """At 10 ms there are blocks on the diagonal, denser at small delays."""
    c.train(
        "paper",
        traces=["mdi/channel00", "mdi/channel01", "mdi/channel02", "mdi/channel03", "mdi/channel04"],
        users=[1],
        states="absolute:delay=40..747/10,window=0..35/1",
    )
    matrix = c.run("matrix", train="paper")
    matrix.core(
        "of what stays at a delay at least half stays within five windows, at each of the first ten delays",
        lambda run: run["delay.near"].where(run["delay.value"] <= 139).min() >= 0.5,
    )
    matrix.core(
        "filled cells in a row become fewer with the delay (rank correlation)",
        lambda run: spearman(run["delay.value"], run["delay.cells_per_row"]) <= -0.5,
    )
    matrix.full(
        "at least 60 % of the transitions are in the blocks of the diagonal",
        lambda run: run["table.diagonal"].mean() >= 0.6,
    )
    matrix.chart(
        "heatmap",
        "transitions",
        caption="The first ten delays; each row is divided by its sum. Without colour: never seen. The paper prints no values.",
    )
    matrix.chart("heatmap", "zoom", caption="The delay with the most cells.")
    matrix.chart(
        "lines",
        lambda run: run["delay.cells_per_row"].mean("train", "start", "seed"),
        x="delay",
        caption="Filled cells in a row by the delay.",
    )


@claim("Section 6.2", "text", "virtual", expected="reproduced", original={"note": "no values printed"})
def quantization(c: Claim) -> None:
    """Quantization of the delay up to 20 ms costs little."""
    ms1 = c.run(
        "ms1",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=trained-absolute-1ms,users=2",
        flows=[2],
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    ms2 = c.run(
        "ms2",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=trained-absolute-2ms,users=2",
        flows=[2],
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    ms5 = c.run(
        "ms5",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=trained-absolute-5ms,users=2",
        flows=[2],
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    ms10 = c.run(
        "ms10",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=trained-absolute-10ms,users=2",
        flows=[2],
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    ms20 = c.run(
        "ms20",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=trained-absolute-20ms,users=2",
        flows=[2],
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    ms1.core(
        "throughput at 2, 5, 10 and 20 ms is within 3 % of that at 1 ms",
        lambda run: (
            ((ms2["throughput_mbps"].mean("cc", "seed") / ms1["throughput_mbps"].mean("cc", "seed")).mean() >= 0.97)
            & ((ms2["throughput_mbps"].mean("cc", "seed") / ms1["throughput_mbps"].mean("cc", "seed")).mean() <= 1.03)
            & ((ms5["throughput_mbps"].mean("cc", "seed") / ms1["throughput_mbps"].mean("cc", "seed")).mean() >= 0.97)
            & ((ms5["throughput_mbps"].mean("cc", "seed") / ms1["throughput_mbps"].mean("cc", "seed")).mean() <= 1.03)
            & ((ms10["throughput_mbps"].mean("cc", "seed") / ms1["throughput_mbps"].mean("cc", "seed")).mean() >= 0.97)
            & ((ms10["throughput_mbps"].mean("cc", "seed") / ms1["throughput_mbps"].mean("cc", "seed")).mean() <= 1.03)
            & ((ms20["throughput_mbps"].mean("cc", "seed") / ms1["throughput_mbps"].mean("cc", "seed")).mean() >= 0.97)
            & ((ms20["throughput_mbps"].mean("cc", "seed") / ms1["throughput_mbps"].mean("cc", "seed")).mean() <= 1.03)
        ),
    )
    ms1.core(
        "delay at 2 and 5 ms is at most 1.15 times that at 1 ms",
        lambda run: (
            (
                (
                    ms2["one_way_delay_ms.mean"].mean("cc", "seed") / ms1["one_way_delay_ms.mean"].mean("cc", "seed")
                ).mean()
                <= 1.15
            )
            & (
                (
                    ms5["one_way_delay_ms.mean"].mean("cc", "seed") / ms1["one_way_delay_ms.mean"].mean("cc", "seed")
                ).mean()
                <= 1.15
            )
        ),
    )
    ms1.full(
        "delay at 20 ms is at most 1.3 times that at 1 ms",
        lambda run: (
            (ms20["one_way_delay_ms.mean"].mean("cc", "seed") / ms1["one_way_delay_ms.mean"].mean("cc", "seed")).mean()
            <= 1.3
        ),
    )
    ms1.chart(
        "bars",
        lambda run: run["one_way_delay_ms.mean"].mean("seed"),
        x="trace",
        group="cc",
        caption="Mean one-way delay with bins of 1 ms; the paper prints no values.",
    )


@claim(
    "Figure 7, section 6.3",
    "figure",
    "virtual",
    expected="in part",
    original={"delay_with_four_users": 4, "note": "ratios read from the text"},
    because="""The direction is that of the figure: 1.2, 2.2, 3.4 and 4.3 times the delay of the teacher with one to four
users. With two users the paper has hardly more, we have twice as much.""",
)
def fig7(c: Claim) -> None:
    """A table of one user, run by one to four: one user has the same delay; with more, throughput is slightly higher
    and the delay grows, fourfold with four users; fairness is almost perfect."""
    teacher = c.run(
        "teacher",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="verus:r=2",
        flows=[1, 2, 3, 4],
        duration="300s",
        seeds=[1],
    )
    model = c.run(
        "model",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=trained-absolute-2ms,users=1",
        flows=[1, 2, 3, 4],
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    model.core(
        "the delay by the teacher rises with the number of users",
        lambda run: (
            (
                (
                    run["one_way_delay_ms.mean"].at(flows="1").mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows="1").mean("cc", "seed")
                ).mean()
                < (
                    run["one_way_delay_ms.mean"].at(flows="2").mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows="2").mean("cc", "seed")
                ).mean()
            )
            & (
                (
                    run["one_way_delay_ms.mean"].at(flows="2").mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows="2").mean("cc", "seed")
                ).mean()
                < (
                    run["one_way_delay_ms.mean"].at(flows="3").mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows="3").mean("cc", "seed")
                ).mean()
            )
            & (
                (
                    run["one_way_delay_ms.mean"].at(flows="3").mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows="3").mean("cc", "seed")
                ).mean()
                < (
                    run["one_way_delay_ms.mean"].at(flows="4").mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows="4").mean("cc", "seed")
                ).mean()
            )
        ),
        bound="paper",
    )
    model.core(
        "with four users it is 2.5 to 6 times",
        lambda run: (
            (
                (
                    run["one_way_delay_ms.mean"].at(flows="4").mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows="4").mean("cc", "seed")
                ).mean()
                >= 2.5
            )
            & (
                (
                    run["one_way_delay_ms.mean"].at(flows="4").mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows="4").mean("cc", "seed")
                ).mean()
                <= 6
            )
        ),
    )
    model.core(
        "with one user it is 0.8 to 1.35 times",
        lambda run: (
            (
                (
                    run["one_way_delay_ms.mean"].at(flows="1").mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows="1").mean("cc", "seed")
                ).mean()
                >= 0.8
            )
            & (
                (
                    run["one_way_delay_ms.mean"].at(flows="1").mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows="1").mean("cc", "seed")
                ).mean()
                <= 1.35
            )
        ),
    )
    model.full(
        "with two users it is at most 1.5 times",
        lambda run: (
            (
                run["one_way_delay_ms.mean"].at(flows="2").mean("cc", "seed")
                / teacher["one_way_delay_ms.mean"].at(flows="2").mean("cc", "seed")
            ).mean()
            <= 1.5
        ),
    )
    model.full(
        "throughput with one user is 0.9 to 1.0, with more 0.98 to 1.1",
        lambda run: (
            (
                (
                    run["throughput_mbps"].at(flows="1").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="1").mean("cc", "seed")
                ).mean()
                >= 0.9
            )
            & (
                (
                    run["throughput_mbps"].at(flows="1").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="1").mean("cc", "seed")
                ).mean()
                <= 1
            )
            & (
                (
                    run["throughput_mbps"].at(flows="2").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="2").mean("cc", "seed")
                ).mean()
                >= 0.98
            )
            & (
                (
                    run["throughput_mbps"].at(flows="2").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="2").mean("cc", "seed")
                ).mean()
                <= 1.1
            )
            & (
                (
                    run["throughput_mbps"].at(flows="3").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="3").mean("cc", "seed")
                ).mean()
                >= 0.98
            )
            & (
                (
                    run["throughput_mbps"].at(flows="3").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="3").mean("cc", "seed")
                ).mean()
                <= 1.1
            )
            & (
                (
                    run["throughput_mbps"].at(flows="4").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="4").mean("cc", "seed")
                ).mean()
                >= 0.98
            )
            & (
                (
                    run["throughput_mbps"].at(flows="4").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="4").mean("cc", "seed")
                ).mean()
                <= 1.1
            )
        ),
    )
    model.full("shares of whole runs have an index of 0.98 or more", lambda run: run["shares"].mean() >= 0.98)
    model.chart(
        "bars",
        lambda run: run["one_way_delay_ms.mean"].mean("trace", "seed"),
        x="flows",
        group="cc",
        caption="Mean one-way delay of the table of one user in ms.",
    )


@claim(
    "Figure 8, section 6.4",
    "figure",
    "virtual",
    expected="in part",
    original={"more_delay": [0.05, 0.2]},
    because="""On average as in the paper (1.21 times the delay, the same throughput), but no channel has less delay than under
the teacher. The channel whose rate varies most has the most, as in the paper.""",
)
def fig8(c: Claim) -> None:
    """Two users under a table of two: the same throughput, 5 to 20 % more delay on two channels, less on two, 50 %
    more on the most variable."""
    teacher = c.run(
        "teacher",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="verus:r=2",
        flows=[2],
        duration="300s",
        seeds=[1],
    )
    channel = c.run(
        "channel",
        trace=EVALUATED,
        cc="cubic",
        analysis="trace",
    )
    model = c.run(
        "model",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=trained-absolute-2ms,users={flows}",
        flows=[2],
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    model.core(
        "mean throughput, model by teacher, is between 0.95 and 1.05",
        lambda run: (
            (
                (
                    run["throughput_mbps"].at(flows="2").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="2").mean("cc", "seed")
                ).mean()
                >= 0.95
            )
            & (
                (
                    run["throughput_mbps"].at(flows="2").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="2").mean("cc", "seed")
                ).mean()
                <= 1.05
            )
        ),
    )
    model.core(
        "mean delay, model by teacher, is between 0.9 and 1.4",
        lambda run: (
            (
                (
                    run["one_way_delay_ms.mean"].at(flows="2").mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows="2").mean("cc", "seed")
                ).mean()
                >= 0.9
            )
            & (
                (
                    run["one_way_delay_ms.mean"].at(flows="2").mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows="2").mean("cc", "seed")
                ).mean()
                <= 1.4
            )
        ),
    )
    model.full(
        "on at least one channel the delay is at most 1.05 times",
        lambda run: (
            run["one_way_delay_ms.mean"].at(flows="2").mean("cc", "seed")
            / teacher["one_way_delay_ms.mean"].at(flows="2").mean("cc", "seed")
            <= 1.05
        ).any(),
    )
    model.full(
        "the channel whose rate varies most (CV of 100 ms) has the most delay by the teacher",
        lambda run: (
            (
                run["one_way_delay_ms.mean"].mean("cc", "seed", "flows")
                / teacher["one_way_delay_ms.mean"].mean("cc", "seed", "flows")
            )
            .where(channel["trace.cv_100ms"].mean("cc", "seed") == channel["trace.cv_100ms"].max())
            .max()
            >= (
                run["one_way_delay_ms.mean"].mean("cc", "seed", "flows")
                / teacher["one_way_delay_ms.mean"].mean("cc", "seed", "flows")
            ).max()
        ),
    )
    model.chart(
        "bars",
        lambda run: run["one_way_delay_ms.mean"].mean("seed"),
        x="trace",
        group="flows",
        caption="Mean one-way delay of the model in ms.",
    )


@claim("Section 6.4", "text", "virtual", expected="reproduced", original={"more_delay": [0.2, 0.4]})
def three(c: Claim) -> None:
    """Three users under a table of three: 20 to 40 % more delay on all channels."""
    teacher = c.run(
        "teacher",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="verus:r=2",
        flows=[3],
        duration="300s",
        seeds=[1],
    )
    channel = c.run(
        "channel",
        trace=EVALUATED,
        cc="cubic",
        analysis="trace",
    )
    model = c.run(
        "model",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=trained-absolute-2ms,users={flows}",
        flows=[3],
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    model.core(
        "mean throughput, model by teacher, is between 0.95 and 1.05",
        lambda run: (
            (
                (
                    run["throughput_mbps"].at(flows="3").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="3").mean("cc", "seed")
                ).mean()
                >= 0.95
            )
            & (
                (
                    run["throughput_mbps"].at(flows="3").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="3").mean("cc", "seed")
                ).mean()
                <= 1.05
            )
        ),
    )
    model.core(
        "mean delay, model by teacher, is between 0.9 and 1.4",
        lambda run: (
            (
                (
                    run["one_way_delay_ms.mean"].at(flows="3").mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows="3").mean("cc", "seed")
                ).mean()
                >= 0.9
            )
            & (
                (
                    run["one_way_delay_ms.mean"].at(flows="3").mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows="3").mean("cc", "seed")
                ).mean()
                <= 1.4
            )
        ),
    )
    model.full(
        "mean delay is 1.2 to 1.4 times",
        lambda run: (
            (
                (
                    run["one_way_delay_ms.mean"].at(flows="3").mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows="3").mean("cc", "seed")
                ).mean()
                >= 1.2
            )
            & (
                (
                    run["one_way_delay_ms.mean"].at(flows="3").mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows="3").mean("cc", "seed")
                ).mean()
                <= 1.4
            )
        ),
        bound="paper",
    )
    model.full(
        "the channel whose rate varies most (CV of 100 ms) has the most delay by the teacher",
        lambda run: (
            (
                run["one_way_delay_ms.mean"].mean("cc", "seed", "flows")
                / teacher["one_way_delay_ms.mean"].mean("cc", "seed", "flows")
            )
            .where(channel["trace.cv_100ms"].mean("cc", "seed") == channel["trace.cv_100ms"].max())
            .max()
            >= (
                run["one_way_delay_ms.mean"].mean("cc", "seed", "flows")
                / teacher["one_way_delay_ms.mean"].mean("cc", "seed", "flows")
            ).max()
        ),
    )
    model.chart(
        "bars",
        lambda run: run["one_way_delay_ms.mean"].mean("seed"),
        x="trace",
        group="flows",
        caption="Mean one-way delay of the model in ms.",
    )


@claim(
    "Figure 9, section 6.4",
    "figure",
    "virtual",
    expected="in part",
    depends=("starts",),
    original={"more_delay": 0.3},
    because="""On average as in the paper (1.16 times the delay, the same throughput), but no channel has as little delay as
under the teacher. The channel whose rate varies most has the most, as in the paper.""",
)
def fig9(c: Claim) -> None:
    """Four users under a table of four: up to 30 % more delay, as much on two channels, twice on the most variable."""
    teacher = c.run(
        "teacher",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="verus:r=2",
        flows=[4],
        duration="300s",
        seeds=[1],
    )
    channel = c.run(
        "channel",
        trace=EVALUATED,
        cc="cubic",
        analysis="trace",
    )
    model = c.run(
        "model",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=trained-absolute-2ms,users={flows}",
        flows=[4],
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    model.core(
        "mean throughput, model by teacher, is between 0.95 and 1.05",
        lambda run: (
            (
                (
                    run["throughput_mbps"].at(flows="4").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="4").mean("cc", "seed")
                ).mean()
                >= 0.95
            )
            & (
                (
                    run["throughput_mbps"].at(flows="4").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="4").mean("cc", "seed")
                ).mean()
                <= 1.05
            )
        ),
    )
    model.core(
        "mean delay, model by teacher, is between 0.9 and 1.4",
        lambda run: (
            (
                (
                    run["one_way_delay_ms.mean"].at(flows="4").mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows="4").mean("cc", "seed")
                ).mean()
                >= 0.9
            )
            & (
                (
                    run["one_way_delay_ms.mean"].at(flows="4").mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows="4").mean("cc", "seed")
                ).mean()
                <= 1.4
            )
        ),
    )
    model.full(
        "on at least one channel the delay is at most 1.05 times",
        lambda run: (
            run["one_way_delay_ms.mean"].at(flows="4").mean("cc", "seed")
            / teacher["one_way_delay_ms.mean"].at(flows="4").mean("cc", "seed")
            <= 1.05
        ).any(),
    )
    model.full(
        "the channel whose rate varies most (CV of 100 ms) has the most delay by the teacher",
        lambda run: (
            (
                run["one_way_delay_ms.mean"].mean("cc", "seed", "flows")
                / teacher["one_way_delay_ms.mean"].mean("cc", "seed", "flows")
            )
            .where(channel["trace.cv_100ms"].mean("cc", "seed") == channel["trace.cv_100ms"].max())
            .max()
            >= (
                run["one_way_delay_ms.mean"].mean("cc", "seed", "flows")
                / teacher["one_way_delay_ms.mean"].mean("cc", "seed", "flows")
            ).max()
        ),
    )
    model.chart(
        "bars",
        lambda run: run["one_way_delay_ms.mean"].mean("seed"),
        x="trace",
        group="flows",
        caption="Mean one-way delay of the model in ms.",
    )


@claim(
    "Section 6.4",
    "text",
    "virtual",
    expected="reproduced",
    headline="Users under one table share almost perfectly",
    original={"note": "no values printed"},
)
def fairness(c: Claim) -> None:
    """Users under one table share almost perfectly."""
    teacher = c.run(
        "teacher",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="verus:r=2",
        flows=[2, 3, 4],
        duration="300s",
        seeds=[1],
    )
    model = c.run(
        "model",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=trained-absolute-2ms,users={flows}",
        flows=[2, 3, 4],
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    model.core(
        "shares of whole runs have an index of 0.97 or more",
        lambda run: (run["shares"].mean("trace", "seed") >= 0.97).all(),
    )
    model.full(
        "in single seconds it is at most 0.05 below the index of the teacher",
        lambda run: run["jain"].mean() >= teacher["jain"].mean() - 0.05,
    )
    model.chart(
        "bars",
        lambda run: run["jain"].mean("trace", "seed"),
        x="flows",
        group="cc",
        caption="Jain's index in single seconds; the paper prints no values.",
    )


@claim(
    "Figure 10, section 6.5",
    "figure",
    "virtual",
    expected="in part",
    original={"note": "no values printed"},
    because="""The order of delays is that of the paper: the matching table 1.19 times, that of all users 1.40 times, that of
one user more. Throughput is not the same with each number of users: the least is 0.94 of the teacher.""",
)
def fig10(c: Claim) -> None:
    """A table of all numbers of users together lies between the matching one and that of one user; throughput is much
    the same."""
    teacher = c.run(
        "teacher",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="verus:r=2",
        flows=[1, 2, 3, 4],
        duration="300s",
        seeds=[1],
    )
    matching = c.run(
        "matching",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=trained-absolute-2ms,users={flows}",
        flows=[1, 2, 3, 4],
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    combined = c.run(
        "combined",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=trained-absolute-2ms",
        flows=[1, 2, 3, 4],
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    one = c.run(
        "one",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=trained-absolute-2ms,users=1",
        flows=[1, 2, 3, 4],
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    combined.core(
        "mean delay with 2 to 4 users: matching below combined below one",
        lambda run: (
            (
                (
                    matching["one_way_delay_ms.mean"].at(flows=["2", "3", "4"]).mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows=["2", "3", "4"]).mean("cc", "seed")
                ).mean()
                < (
                    combined["one_way_delay_ms.mean"].at(flows=["2", "3", "4"]).mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows=["2", "3", "4"]).mean("cc", "seed")
                ).mean()
            )
            & (
                (
                    combined["one_way_delay_ms.mean"].at(flows=["2", "3", "4"]).mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows=["2", "3", "4"]).mean("cc", "seed")
                ).mean()
                < (
                    one["one_way_delay_ms.mean"].at(flows=["2", "3", "4"]).mean("cc", "seed")
                    / teacher["one_way_delay_ms.mean"].at(flows=["2", "3", "4"]).mean("cc", "seed")
                ).mean()
            )
        ),
        bound="paper",
    )
    combined.full(
        "throughput of the combined table is 0.95 to 1.05 of the teacher with 1 to 4 users",
        lambda run: (
            (
                (
                    combined["throughput_mbps"].at(flows="1").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="1").mean("cc", "seed")
                ).mean()
                >= 0.95
            )
            & (
                (
                    combined["throughput_mbps"].at(flows="1").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="1").mean("cc", "seed")
                ).mean()
                <= 1.05
            )
            & (
                (
                    combined["throughput_mbps"].at(flows="2").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="2").mean("cc", "seed")
                ).mean()
                >= 0.95
            )
            & (
                (
                    combined["throughput_mbps"].at(flows="2").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="2").mean("cc", "seed")
                ).mean()
                <= 1.05
            )
            & (
                (
                    combined["throughput_mbps"].at(flows="3").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="3").mean("cc", "seed")
                ).mean()
                >= 0.95
            )
            & (
                (
                    combined["throughput_mbps"].at(flows="3").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="3").mean("cc", "seed")
                ).mean()
                <= 1.05
            )
            & (
                (
                    combined["throughput_mbps"].at(flows="4").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="4").mean("cc", "seed")
                ).mean()
                >= 0.95
            )
            & (
                (
                    combined["throughput_mbps"].at(flows="4").mean("cc", "seed")
                    / teacher["throughput_mbps"].at(flows="4").mean("cc", "seed")
                ).mean()
                <= 1.05
            )
        ),
    )
    combined.full(
        "the delays are in that order in at least 8 of 12 cells of channel and number of users",
        lambda run: (
            (
                (
                    matching["one_way_delay_ms.mean"].at(flows=["2", "3", "4"]).mean("cc", "seed")
                    < combined["one_way_delay_ms.mean"].at(flows=["2", "3", "4"]).mean("cc", "seed")
                )
                & (
                    combined["one_way_delay_ms.mean"].at(flows=["2", "3", "4"]).mean("cc", "seed")
                    < one["one_way_delay_ms.mean"].at(flows=["2", "3", "4"]).mean("cc", "seed")
                )
            ).count()
            >= 8
        ),
    )
    combined.chart(
        "bars",
        lambda run: run["one_way_delay_ms.mean"].mean("trace", "seed"),
        x="flows",
        group="cc",
        caption="Mean one-way delay of the combined table in ms.",
    )


@claim(
    "Figure 11, section 6.6",
    "figure",
    "virtual",
    expected="refuted",
    original={"note": "no values printed"},
    because="""User 1's throughput in single seconds correlates with the teacher's to 0.63 with the walk as printed, and to
0.82 with states of levels, where 0.8 was asked for. The peaks of slow start are there: in the first two seconds
of a file Verus has 317 ms of queue in the mean and the walk 76 ms; the 99th percentile does not show it, since
it is that of the channel's outages, which both have.""",
)
def fig11(c: Claim) -> None:
    """ON/OFF traffic of four users: throughput and delay over time are alike but for peaks of slow start."""
    teacher = c.run(
        "teacher",
        printed=NETWORK,
        block="OPNET",
        trace="mdi/channel08+mdi/channel09+mdi/channel10+mdi/channel11",
        cc="verus:r=2",
        flows=4,
        duration="3000s",
        skip="0s",
        seeds=[1, 2, 3, 4, 5],
        flow='onoff = { mean = "4MB", max = "10MB", off = "60s", rate = "4mbit" }',
        series="1s",
    )
    paper = c.run(
        "paper",
        printed=NETWORK,
        block="OPNET",
        trace="mdi/channel08+mdi/channel09+mdi/channel10+mdi/channel11",
        cc="mdi:model=trained-absolute-2ms,sampler=closest,empty=paper,loss=ignore",
        flows=4,
        duration="3000s",
        skip="0s",
        seeds=[1, 2, 3, 4, 5],
        flow='onoff = { mean = "4MB", max = "10MB", off = "60s", rate = "4mbit" }',
        series="1s",
    )
    levels = c.run(
        "levels",
        beside=True,
        printed=NETWORK,
        block="OPNET",
        trace="mdi/channel08+mdi/channel09+mdi/channel10+mdi/channel11",
        cc="mdi:model=trained-levels",
        flows=4,
        duration="3000s",
        skip="0s",
        seeds=[1, 2, 3, 4, 5],
        flow='onoff = { mean = "4MB", max = "10MB", off = "60s", rate = "4mbit" }',
        series="1s",
    )
    paper.core(
        "the walk as printed: Verus' peaks (90th percentile of the queue delay in the first two seconds of a file) are at least twice as high",
        lambda run: (
            teacher["flow.series.queue_delay_p95_ms"]
            .where((teacher["flow.series.busy_s"] > 0 * s) & (teacher["flow.series.busy_s"] <= 2 * s))
            .percentile(90)
            / run["flow.series.queue_delay_p95_ms"]
            .where((run["flow.series.busy_s"] > 0 * s) & (run["flow.series.busy_s"] <= 2 * s))
            .percentile(90)
            >= 2
        ),
    )
    paper.full(
        "the walk as printed: the same of the 99th percentile",
        lambda run: (
            teacher["flow.series.queue_delay_p95_ms"]
            .where((teacher["flow.series.busy_s"] > 0 * s) & (teacher["flow.series.busy_s"] <= 2 * s))
            .percentile(99)
            / run["flow.series.queue_delay_p95_ms"]
            .where((run["flow.series.busy_s"] > 0 * s) & (run["flow.series.busy_s"] <= 2 * s))
            .percentile(99)
            >= 2
        ),
    )
    paper.core(
        "the walk as printed: rank correlation of user 1's throughput in single seconds in which either is on",
        lambda run: (
            spearman(
                run["flow.series.throughput_mbps"]
                .at(flow="0")
                .mean("cc")
                .where(
                    run["flow.series.throughput_mbps"].at(flow="0").mean("cc")
                    + teacher["flow.series.throughput_mbps"].at(flow="0").mean("cc")
                    > 0 * mbit
                ),
                teacher["flow.series.throughput_mbps"].at(flow="0").mean("cc"),
            )
            >= 0.8
        ),
    )
    levels.core(
        "states of levels: Verus' peaks (90th percentile of the queue delay in the first two seconds of a file) are at least twice as high",
        lambda run: (
            teacher["flow.series.queue_delay_p95_ms"]
            .where((teacher["flow.series.busy_s"] > 0 * s) & (teacher["flow.series.busy_s"] <= 2 * s))
            .percentile(90)
            / run["flow.series.queue_delay_p95_ms"]
            .where((run["flow.series.busy_s"] > 0 * s) & (run["flow.series.busy_s"] <= 2 * s))
            .percentile(90)
            >= 2
        ),
    )
    levels.full(
        "states of levels: the same of the 99th percentile",
        lambda run: (
            teacher["flow.series.queue_delay_p95_ms"]
            .where((teacher["flow.series.busy_s"] > 0 * s) & (teacher["flow.series.busy_s"] <= 2 * s))
            .percentile(99)
            / run["flow.series.queue_delay_p95_ms"]
            .where((run["flow.series.busy_s"] > 0 * s) & (run["flow.series.busy_s"] <= 2 * s))
            .percentile(99)
            >= 2
        ),
    )
    levels.core(
        "states of levels: rank correlation of user 1's throughput in single seconds in which either is on",
        lambda run: (
            spearman(
                run["flow.series.throughput_mbps"]
                .at(flow="0")
                .mean("cc")
                .where(
                    run["flow.series.throughput_mbps"].at(flow="0").mean("cc")
                    + teacher["flow.series.throughput_mbps"].at(flow="0").mean("cc")
                    > 0 * mbit
                ),
                teacher["flow.series.throughput_mbps"].at(flow="0").mean("cc"),
            )
            >= 0.8
        ),
    )
    teacher.chart(
        "lines",
        lambda run: run["flow.series.throughput_mbps"].at(flow="0", time="0s..600s", seed="1").mean("trace", "start"),
        x="time",
        group="cc",
        caption="User 1 under Verus, the first 600 s; the paper prints no values.",
    )
    levels.chart(
        "lines",
        lambda run: run["flow.series.throughput_mbps"].at(flow="0", time="0s..600s", seed="1").mean("trace", "start"),
        x="time",
        group="cc",
        caption="User 1 under the table of levels.",
    )


@claim(
    "Figure 12, section 6.6",
    "figure",
    "virtual",
    expected="in part",
    original={"note": "no values printed"},
    because="""The walk as printed has the throughput of three of four users within the intervals and half of the teacher's
delay: lower, as the paper says, but far below its intervals. With a slow start of its own, which the paper's
model does not have, states of levels have throughput and delay of all four users within them.""",
)
def fig12(c: Claim) -> None:
    """ON/OFF traffic of four users: means of throughput and delay lie within the 95 % intervals of each other, the
    delay of the model slightly lower."""
    teacher = c.run(
        "teacher",
        printed=NETWORK,
        block="OPNET",
        trace="mdi/channel08+mdi/channel09+mdi/channel10+mdi/channel11",
        cc="verus:r=2",
        flows=4,
        duration="3000s",
        skip="0s",
        seeds=[1, 2, 3, 4, 5],
        flow='onoff = { mean = "4MB", max = "10MB", off = "60s", rate = "4mbit" }',
        series="1s",
    )
    paper = c.run(
        "paper",
        printed=NETWORK,
        block="OPNET",
        trace="mdi/channel08+mdi/channel09+mdi/channel10+mdi/channel11",
        cc="mdi:model=trained-absolute-2ms,sampler=closest,empty=paper,loss=ignore",
        flows=4,
        duration="3000s",
        skip="0s",
        seeds=[1, 2, 3, 4, 5],
        flow='onoff = { mean = "4MB", max = "10MB", off = "60s", rate = "4mbit" }',
        series="1s",
    )
    levels = c.run(
        "levels",
        beside=True,
        printed=NETWORK,
        block="OPNET",
        trace="mdi/channel08+mdi/channel09+mdi/channel10+mdi/channel11",
        cc="mdi:model=trained-levels",
        flows=4,
        duration="3000s",
        skip="0s",
        seeds=[1, 2, 3, 4, 5],
        flow='onoff = { mean = "4MB", max = "10MB", off = "60s", rate = "4mbit" }',
        series="1s",
    )
    slow = c.run(
        "slow",
        beside=True,
        printed=NETWORK,
        block="OPNET",
        trace="mdi/channel08+mdi/channel09+mdi/channel10+mdi/channel11",
        cc="mdi:model=trained-levels,start=slow",
        flows=4,
        duration="3000s",
        skip="0s",
        seeds=[1, 2, 3, 4, 5],
        flow='onoff = { mean = "4MB", max = "10MB", off = "60s", rate = "4mbit" }',
        series="1s",
    )
    paper.core(
        "the walk as printed: throughput of at least three of four users within each other's intervals",
        lambda run: (
            overlap(
                run["flow.throughput_mbps"].mean("cc"),
                teacher["flow.throughput_mbps"].mean("cc"),
                "trace",
                "start",
                "seed",
            ).count()
            >= 3
        ),
    )
    paper.core(
        "the walk as printed: the delay is at most the teacher's",
        lambda run: run["flow.one_way_delay_ms.mean"].mean() <= teacher["flow.one_way_delay_ms.mean"].mean(),
        bound="paper",
    )
    paper.full(
        "the walk as printed: delay of at least three of four users within each other's intervals",
        lambda run: (
            overlap(
                run["flow.one_way_delay_ms.mean"].mean("cc"),
                teacher["flow.one_way_delay_ms.mean"].mean("cc"),
                "trace",
                "start",
                "seed",
            ).count()
            >= 3
        ),
    )
    levels.core(
        "states of levels: throughput of at least three of four users within each other's intervals",
        lambda run: (
            overlap(
                run["flow.throughput_mbps"].mean("cc"),
                teacher["flow.throughput_mbps"].mean("cc"),
                "trace",
                "start",
                "seed",
            ).count()
            >= 3
        ),
    )
    levels.core(
        "states of levels: the delay is at most the teacher's",
        lambda run: run["flow.one_way_delay_ms.mean"].mean() <= teacher["flow.one_way_delay_ms.mean"].mean(),
    )
    levels.full(
        "states of levels: delay of at least three of four users within each other's intervals",
        lambda run: (
            overlap(
                run["flow.one_way_delay_ms.mean"].mean("cc"),
                teacher["flow.one_way_delay_ms.mean"].mean("cc"),
                "trace",
                "start",
                "seed",
            ).count()
            >= 3
        ),
    )
    slow.core(
        "states of levels, a slow start: throughput of at least three of four users within each other's intervals",
        lambda run: (
            overlap(
                run["flow.throughput_mbps"].mean("cc"),
                teacher["flow.throughput_mbps"].mean("cc"),
                "trace",
                "start",
                "seed",
            ).count()
            >= 3
        ),
    )
    slow.core(
        "states of levels, a slow start: the delay is at most the teacher's",
        lambda run: run["flow.one_way_delay_ms.mean"].mean() <= teacher["flow.one_way_delay_ms.mean"].mean(),
    )
    slow.full(
        "states of levels, a slow start: delay of at least three of four users within each other's intervals",
        lambda run: (
            overlap(
                run["flow.one_way_delay_ms.mean"].mean("cc"),
                teacher["flow.one_way_delay_ms.mean"].mean("cc"),
                "trace",
                "start",
                "seed",
            ).count()
            >= 3
        ),
    )
    levels.chart(
        "bars",
        lambda run: run["flow.throughput_mbps"].mean("trace", "start", "seed"),
        x="flow",
        group="cc",
        caption="Throughput of the four users, states of levels; the paper prints no values.",
    )


@claim("Table 3, section 6.6", "table", "component", expected="built", tests=("mdi_table_3_files_and_pauses",))
def table3(c: Claim) -> None:
    """ON/OFF traffic: files of 4 MB on average, at most 10 MB, and pauses of 60 s on average."""


@claim(
    "Section 7",
    "text",
    "component",
    expected="built",
    tests=("mdi_t10_", "mdi_t11_", "mdi_t12_"),
    because="""A second walker in Python of less than 300 lines agrees with ours state by state, and the kernel driver walks a
flat table of whole numbers.""",
)
def simple(c: Claim) -> None:
    """A model is much simpler to run than the protocol that it was learnt from."""


@claim(
    "Section 3",
    "text",
    "virtual",
    expected="reproduced",
    original={"note": "no values printed"},
    because="""States of levels; Sprout with max_rate=auto, since its own model ends at 12 Mbit/s and leaves channels of 20
without a queue.""",
)
def others(c: Claim) -> None:
    """Other protocols that go by the delay can be modelled in the same way."""
    c.train("copa", teacher="copa", states="levels")
    c.train("sprout:max_rate=auto", teacher="sprout:max_rate=auto", states="levels")
    c.train("ledbat", teacher="ledbat", states="levels")
    c.train("vegas", teacher="vegas", states="levels")
    teacher = c.run(
        "teacher",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="{teacher}",
        flows=[1, 2, 3, 4],
        duration="120s",
        sweep={"teacher": ["copa", "sprout:max_rate=auto", "ledbat", "vegas"]},
    )
    model = c.run(
        "model",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=train.{teacher},users={flows}",
        flows=[1, 2, 3, 4],
        duration="120s",
        seeds=[1, 2],
        sweep={"teacher": ["copa", "sprout:max_rate=auto", "ledbat", "vegas"]},
    )
    model.core(
        "of three of four teachers the mean throughput is 0.85 to 1.1 times and the delay at most 1.5 times",
        lambda run: (
            (
                (
                    (run["throughput_mbps"].mean("cc", "seed") / teacher["throughput_mbps"].mean("cc", "seed")).mean(
                        "trace", "flows", "start"
                    )
                    >= 0.85
                )
                & (
                    (run["throughput_mbps"].mean("cc", "seed") / teacher["throughput_mbps"].mean("cc", "seed")).mean(
                        "trace", "flows", "start"
                    )
                    <= 1.1
                )
                & (
                    (
                        run["one_way_delay_ms.mean"].mean("cc", "seed")
                        / teacher["one_way_delay_ms.mean"].mean("cc", "seed")
                    ).mean("trace", "flows", "start")
                    <= 1.5
                )
            ).count()
            >= 3
        ),
    )
    model.full(
        "so it is of each of the four",
        lambda run: (
            (
                (
                    (run["throughput_mbps"].mean("cc", "seed") / teacher["throughput_mbps"].mean("cc", "seed")).mean(
                        "trace", "flows", "start"
                    )
                    >= 0.85
                )
                & (
                    (run["throughput_mbps"].mean("cc", "seed") / teacher["throughput_mbps"].mean("cc", "seed")).mean(
                        "trace", "flows", "start"
                    )
                    <= 1.1
                )
                & (
                    (
                        run["one_way_delay_ms.mean"].mean("cc", "seed")
                        / teacher["one_way_delay_ms.mean"].mean("cc", "seed")
                    ).mean("trace", "flows", "start")
                    <= 1.5
                )
            ).count()
            == 4
        ),
    )
    model.chart(
        "bars",
        lambda run: run["throughput_mbps"].mean("trace", "cc", "start", "seed"),
        x="flows",
        group="teacher",
        caption="Throughput of the tables in Mbit/s by the number of users; the paper prints no values.",
    )
    teacher.chart(
        "bars",
        lambda run: run["throughput_mbps"].mean("trace", "cc", "start", "seed"),
        x="flows",
        group="teacher",
        caption="That of their teachers.",
    )


@claim(
    "Section 1",
    "text",
    "virtual",
    expected="in part",
    original={"note": "no values printed"},
    because="""Another number of users than trained with costs much: 3.6 times the delay. But it does not dominate: on channels
of half and a quarter of the rate the matching table has 5.4 times the delay of the teacher, since it says how
many packets the whole rate took.""",
)
def users(c: Claim) -> None:
    """The number of users is the dominant factor of the design range."""
    c.run(
        "teacher",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="verus:r=2",
        flows=[4],
        duration="300s",
        seeds=[1],
    )
    matching = c.run(
        "matching",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=trained-absolute-2ms,users=4",
        flows=[4],
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    one = c.run(
        "one",
        printed=NETWORK,
        block="OPNET",
        trace=EVALUATED,
        cc="mdi:model=trained-absolute-2ms,users=1",
        flows=[4],
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    scaled_teacher = c.run(
        "scaled_teacher",
        printed=NETWORK,
        block="OPNET",
        trace=[
            "mdi/channel08*0.5",
            "mdi/channel09*0.5",
            "mdi/channel10*0.5",
            "mdi/channel11*0.5",
            "mdi/channel08*0.25",
            "mdi/channel09*0.25",
            "mdi/channel10*0.25",
            "mdi/channel11*0.25",
        ],
        cc="verus:r=2",
        flows=4,
        duration="300s",
    )
    scaled = c.run(
        "scaled",
        printed=NETWORK,
        block="OPNET",
        trace=[
            "mdi/channel08*0.5",
            "mdi/channel09*0.5",
            "mdi/channel10*0.5",
            "mdi/channel11*0.5",
            "mdi/channel08*0.25",
            "mdi/channel09*0.25",
            "mdi/channel10*0.25",
            "mdi/channel11*0.25",
        ],
        cc="mdi:model=trained-absolute-2ms,users=4",
        flows=4,
        duration="300s",
        seeds=[1, 2, 3, 4, 5],
    )
    one.core(
        "with four users the table of one has at least twice the delay of the matching one",
        lambda run: (
            (
                one["one_way_delay_ms.mean"].mean("cc", "seed") / matching["one_way_delay_ms.mean"].mean("cc", "seed")
            ).mean()
            >= 2
        ),
    )
    scaled.full(
        "a channel of half or a quarter of the rate costs less than another number of users",
        lambda run: (
            (
                run["one_way_delay_ms.mean"].mean("cc", "seed")
                / scaled_teacher["one_way_delay_ms.mean"].mean("cc", "seed")
            ).mean()
            <= (
                one["one_way_delay_ms.mean"].mean("cc", "seed") / matching["one_way_delay_ms.mean"].mean("cc", "seed")
            ).mean()
        ),
    )
    one.chart(
        "bars",
        lambda run: run["one_way_delay_ms.mean"].mean("seed"),
        x="trace",
        group="cc",
        caption="Mean one-way delay of the table of one user with four users in ms.",
    )
