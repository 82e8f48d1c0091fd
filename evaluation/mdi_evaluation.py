"""The tables of docs/validation/mdi.md, and the pictures of docs/mdi.md.

Everything is trained anew in a temporary folder; no trace and no model stays.
"""
import math
import tempfile
from pathlib import Path
from statistics import mean, stdev

from page_picture import picture
from program import ROOT, call, compare, jain, real, table, write

TEACHER = "verus:r=2"
# The AQM of the paper, section 6.1.
RED = ["--queue", "red:min=3mbit,max=9mbit,p=0.1%"]
TRAINING = [f"mdi/channel{n:02}" for n in range(8)]
CHANNELS = [f"mdi/channel{n:02}" for n in range(8, 12)]
ALCC = ["beachfront-walk", "campus-walk", "city-drive", "highway-3g", "highway-drive",
        "rapid-change"]
MAHIMAHI = ["verizon-lte-short", "att-lte-driving", "tmobile-umts-driving"]
GROUPS = {"channels": CHANNELS, "ALCC": ALCC}
USERS = [1, 4]
SEEDS = 5
# Student's t for 95 % and five seeds.
T = 2.776


# Running ------------------------------------------------------------------------------------

class Bench:
    """A folder with models, and the runs with them."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def train(self, name, *options, traces=TRAINING, teacher=TEACHER, red=True):
        """Trains a model and gives what the program says about it."""
        args = [word for trace in traces for word in ("--trace", real(trace))]
        args += RED if red else []
        return call("mdi", "train", "--cc", teacher, *args, *options, "-o", name, cwd=self.folder)

    def runs(self, traces, ccs, *options):
        """Runs by (trace, controller), one per seed."""
        ccs = list(dict.fromkeys(ccs))
        document = compare([real(t) for t in traces], ccs, *options, cwd=self.folder)
        runs = {}
        for run in document["runs"]:
            runs.setdefault((run["trace"].removesuffix(".down"), run["cc"]), []).append(run)
        return {(trace, cc): runs[(Path(trace).name, cc)] for trace in traces for cc in ccs}


FIGURES = {
    "throughput": lambda run: run["throughput_mbps"],
    "delay": lambda run: run["one_way_delay_ms"]["mean"],
    "jain": lambda run: run["jain"],
    "shares": lambda run: jain([flow["throughput_mbps"] for flow in run["per_flow"]]),
}


def ratios(runs, trace, cc, teacher=TEACHER):
    """Model by teacher, seed by seed: for each figure its mean and 95 % confidence interval."""
    result = {}
    for figure in ("throughput", "delay"):
        pairs = zip(runs[(trace, cc)], runs[(trace, teacher)], strict=True)
        result[figure] = interval([FIGURES[figure](ours) / FIGURES[figure](theirs)
                                   for ours, theirs in pairs])
    return result


def average(runs, figure):
    return mean(FIGURES[figure](run) for run in runs)


def interval(values):
    half = T * stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return mean(values), half


def short(trace):
    return trace.removeprefix("mdi/")


# The evaluation: sections 6.3 to 6.5 of the paper -------------------------------------------------

VARIANTS = {"levels": [], "absolute": ["--states", "absolute:bin=2ms"],
            "relative": ["--states", "relative"]}
# What is run of each; with relative states the number of users does not decide.
TRAININGS = {"levels": ["matching", "one user", "combined", "adapting"],
             "absolute": ["matching", "one user", "combined", "adapting"], "relative": ["matching"]}


def model(variant, training, users):
    part = {"matching": f",users={users}", "one user": ",users=1", "combined": "",
            "adapting": ",users=adapt"}[training]
    return f"mdi:model={variant}{part}"


class Evaluation:
    """All variants and trainings with one user and with four on all traces."""

    def __init__(self, bench):
        for variant, options in VARIANTS.items():
            bench.train(variant, *options)
        ccs = lambda users: [model(v, t, users) for v in VARIANTS for t in TRAININGS[v]]
        self.runs = {users: bench.runs(CHANNELS + ALCC, [TEACHER] + ccs(users), *RED,
                                       "--flows", users, "--repeat", SEEDS) for users in USERS}

    def ratios(self, variant, training, users, trace):
        return ratios(self.runs[users], trace, model(variant, training, users))

    def of(self, variant, training, users, traces, figure):
        return [self.ratios(variant, training, users, t)[figure][0] for t in traces]

    def fairness_of(self, cc, users):
        """Jain's index of the shares of whole runs, and its mean over seconds."""
        return [mean(average(self.runs[users][(trace, cc)], figure) for trace in CHANNELS + ALCC)
                for figure in ("shares", "jain")]

    def summary(self):
        rows = []
        for variant in VARIANTS:
            for training in TRAININGS[variant]:
                row = [f"`{variant}`", training]
                for users in USERS:
                    for traces in GROUPS.values():
                        row.append(" / ".join(f"{mean(self.of(variant, training, users, traces, figure)):.2f}"
                                              for figure in ("throughput", "delay")))
                shares, seconds = self.fairness_of(model(variant, training, 4), 4)
                rows.append(row + [f"{shares:.2f} / {seconds:.2f}"])
        shares, seconds = self.fairness_of(TEACHER, 4)
        rows.append([f"`{TEACHER}`", ""] + ["1 / 1"] * 2 * len(GROUPS) + [f"{shares:.2f} / {seconds:.2f}"])
        return table(["states", "trained with"] + [f"{count}, {group}" for count in counted(USERS) for group in GROUPS]
                     + ["Jain's index, 4 users"], rows)


def counted(users):
    return [f"{count} user{'s' if count > 1 else ''}" for count in users]


# Other teachers -------------------------------------------------------------------------------

TEACHERS = ["copa", "sprout", "sprout:max_rate=auto", "ledbat"]
TEACHER_SEEDS = 2


def other_teachers(bench):
    """With levels; matching."""
    rows = []
    for teacher in TEACHERS:
        name = teacher.split(":")[0]
        bench.train(name, "--users", "1,2", teacher=teacher)
        row = [f"`{teacher}`"]
        for users in (1, 2):
            cc = model(name, "matching", users)
            runs = bench.runs(CHANNELS + ALCC, [teacher, cc], *RED, "--flows", users, "--repeat", TEACHER_SEEDS)
            for traces in GROUPS.values():
                found = [ratios(runs, trace, cc, teacher) for trace in traces]
                row.append(" / ".join(f"{mean(one[figure][0] for one in found):.2f}" for figure in ("throughput", "delay")))
        rows.append(row)
    return table(["teacher"] + [f"{count}, {group}" for count in counted([1, 2]) for group in GROUPS], rows)


# The built-in model -----------------------------------------------------------------------------

def built_in(bench):
    """In the default set-up of `compare`."""
    traces = MAHIMAHI + ALCC + TRAINING + CHANNELS
    runs = bench.runs(traces, [TEACHER, "mdi"], "--rtt", "40ms", "--repeat", SEEDS)
    found = [ratios(runs, trace, "mdi") for trace in traces]
    return (f"{mean(one['throughput'][0] for one in found):.2f} of Verus' throughput, "
            f"{mean(one['delay'][0] for one in found):.2f} of its one-way delay, on {len(traces)} recorded traces")


# Pictures: figures 5 and 6 of the paper --------------------------------------------------------------

def pictures():
    """On profiles, so that they need no trace."""
    with tempfile.TemporaryDirectory() as folder:
        call("mdi", "train", "--cc", TEACHER, "--trace", "lte-driving", "--trace", "hspa-walking", "--users", 1,
             "--rtt", "20ms", "--states", "absolute:bin=1ms", "-o", "profile", cwd=folder)
        call("mdi", "show", "profile", "--report", "page.html", cwd=folder)
        svg = picture(Path(folder) / "page.html", f"{TEACHER}: transitions")
        write(ROOT / "docs" / "img" / "mdi-matrix-1ms.svg", svg)


# The page -------------------------------------------------------------------------------------------

def tables():
    """By their marks."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder)
        found = {}
        evaluation = Evaluation(bench)
        found["mdi-summary"] = evaluation.summary()
        found["mdi-teachers"] = other_teachers(bench)
        found["answer-table"] = built_in(bench)
    return found
