"""Parts of recorded traces, for runs in real time that are shorter than the trace."""
import math
import subprocess
import tempfile
from pathlib import Path

# Where the parts are, while this runs.
FOLDER = tempfile.TemporaryDirectory()
# The link begins before the flow does: so much more than the run, in seconds.
MORE = 5


def minute(cellpace, trace, number, seconds):
    """The part of the file `trace` that runs of this number and so many seconds are over, as a file. The
    first is its beginning; the others are all over it, however many they are."""
    part = Path(FOLDER.name) / f"{Path(trace).stem}-{number}-{seconds}.down"
    if not part.exists():
        with open(trace, encoding="ascii") as lines:
            *_, last = lines
        length = seconds + MORE
        golden = (math.sqrt(5) - 1) / 2
        start = number * golden % 1 * max(int(last) / 1e3 - length, 0)
        subprocess.run([cellpace, "trace", "convert", trace, "-o", part, "--start", f"{start:.3f}s",
                        "--duration", f"{length}s"], check=True, stdout=subprocess.DEVNULL)
    return part
