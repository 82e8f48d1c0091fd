"""The profiles leo-bent-pipe, 5g-static and 5g-driving: fitted to recordings in the folders leo/ and 5g/ of CELLPACE_TRACES.

Rates and RTTs are of separate recordings: of the satellite the pings were nine days before the download, of 5G they ran in
seconds without one, which the log shows beside those with one. Of the satellite's pings 2.5 % were lost, nearly all alone,
and of the download's packets 0.2 % were sent again: so pings say nothing of loss, and no profile has any.
"""
import csv
import datetime
import gzip
import tempfile
from itertools import groupby
from pathlib import Path

from program import ROOT, TRACES, call, write

PROFILES = ROOT / "crates" / "path" / "src" / "profile"
ABOUT = {
    "leo-bent-pipe": "fitted to {seconds} s of a download over Starlink without laser links (MMSys 2024), RTT to pings of its "
                     "gateway nine days before: not recorded together",
    "5g-static": "fitted to {seconds} s of downloads at rest (MMSys 2020, seconds with 5G only), RTT to the pings between them: not "
                 "recorded together",
    "5g-driving": "fitted to {seconds} s of downloads in a car (MMSys 2020, seconds with 5G only), RTT to the pings between them: "
                  "not recorded together",
}


def fit():
    with tempfile.TemporaryDirectory() as folder:
        for name, (trace, options) in sources(Path(folder)).items():
            made = Path(folder) / name
            print(call("trace", "fit", trace, "-o", made, *options))
            lines = made.read_text().splitlines()
            seconds = lines[1].split()[4]
            lines[1] = "about = " + ABOUT[name].format(seconds=seconds)
            write(PROFILES / f"{name}.profile", "\n".join(lines) + "\n")
    return {}


def sources(folder):
    """By profile what it is fitted to: a trace, and the options for the rest."""
    found = {"leo-bent-pipe": (f"{TRACES}/leo/downlink-bent-pipe.iperf3.json.gz", ["--rtt", f"file:{pings(folder)}"])}
    for name, logs in (("static", ["static0", "static1", "static2"]), ("driving", ["driving0", "driving1", "driving3"])):
        rates, rtts = phone(folder / name, logs)
        found[f"5g-{name}"] = (rates, ["--rtt", f"file:{rtts}"])
    return found


def pings(folder):
    """A file of RTTs."""
    with gzip.open(f"{TRACES}/leo/ping-bent-pipe-60min.txt.gz", "rt") as file:
        rows = [(float(at), float(rtt)) for at, _, rtt in map(str.split, file)]
    rtts = {int(1000 * (at - rows[0][0])): rtt for at, rtt in rows if rtt >= 0}
    file = folder / "pings"
    file.write_text("".join(f"{at} {value}\n" for at, value in rtts.items()))
    return file


def phone(stem, logs):
    """A table of the rates in seconds with 5G and a download, one behind the other, and a file of RTTs."""
    rates, rtts, begun = [], [], 0
    for log in logs:
        with gzip.open(f"{TRACES}/5g/{log}.csv.gz", "rt") as file:
            lines = [line for line in csv.DictReader(file) if line["NetworkMode"] == "5G"]
        at = [datetime.datetime.strptime(line["Timestamp"], "%Y.%m.%d_%H.%M.%S") for line in lines]
        seconds = [int((time - at[0]).total_seconds()) for time in at]
        for second, group in groupby(zip(seconds, lines), lambda pair: pair[0]):
            group = [line for _, line in group]
            least = [float(line["PINGMIN"]) for line in group if line["PINGMIN"] not in ("", "-")]
            loads = [float(line["DL_bitrate"]) for line in group if line["State"] == "D"]
            if least:
                rtts.append((1000 * (begun + second), min(least)))
            elif loads:
                rates.append(sum(loads) / len(loads) / 1000)
        begun += seconds[-1] + 1
    table, delays = stem.with_suffix(".csv"), stem.with_suffix(".rtt")
    table.write_text("time_s,mbps\n" + "".join(f"{second},{rate}\n" for second, rate in enumerate(rates)))
    delays.write_text("".join(f"{at} {rtt}\n" for at, rtt in rtts))
    return table, delays
