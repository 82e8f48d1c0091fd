"""What alcc_evaluation.py and the page made of it compute with: intervals and overlaps.

    python3 -m doctest evaluation/alcc_statistics.py

Delays are counted in bins: one for each millisecond up to 100 ms, then 20 for each decade up to
10 s; what is longer is in the last. A list of counts ends with its last packet.
"""
import itertools
import math
import statistics

FINE = 100
PER_DECADE = 20
BINS = FINE + 2 * PER_DECADE


def bin_of(ms):
    """The bin of a delay in milliseconds.

    >>> [bin_of(ms) for ms in (-0.1, 0, 0.99, 1, 99.9, 100, 999, 1001, 9999, 1e6)]
    [0, 0, 0, 1, 99, 100, 119, 120, 139, 139]
    """
    if ms < FINE:
        return max(int(ms), 0)
    return min(FINE + int(PER_DECADE * math.log10(ms / FINE)), BINS - 1)


def histogram(delays_ms):
    """Counts of delays in milliseconds.

    >>> histogram([0.5, 2.1, 2.9])
    [1, 0, 2]
    """
    counts = [0] * BINS
    for ms in delays_ms:
        counts[bin_of(ms)] += 1
    while counts and not counts[-1]:
        counts.pop()
    return counts


def pooled(histograms):
    """Their sum.

    >>> pooled([[1, 2], [0, 0, 3]])
    [1, 2, 3]
    """
    return [sum(counts) for counts in itertools.zip_longest(*histograms, fillvalue=0)]


def overlap(one, other):
    """The overlap coefficient of two histograms, 0 to 1: the sum over bins of the lesser share.

    >>> overlap([1, 1], [10, 10]), overlap([5], [0, 5]), overlap([1, 1], [0, 1, 1])
    (1.0, 0.0, 0.5)
    """
    total, other_total = sum(one), sum(other)
    if not total or not other_total:
        return 0.0
    return sum(min(p / total, q / other_total) for p, q in zip(one, other))


def ratio_interval(above, below):
    """The 95 % confidence interval of the ratio of the means of pairs, as (from, to): Fieller's. None
    with fewer than two pairs, or if the denominator may be 0.

    >>> low, high = ratio_interval([10.1, 9.9, 10.3, 9.7], [5.0, 5.0, 5.1, 4.9])
    >>> f"{low:.3f} {high:.3f}"
    '1.963 2.036'
    >>> ratio_interval([2, 2], [1, 1]), ratio_interval([1], [1]), ratio_interval([1, 2], [-9, 9])
    ((2.0, 2.0), None, None)
    """
    count = len(above)
    if count < 2:
        return None
    mean, base = statistics.fmean(above), statistics.fmean(below)
    t2 = student(count - 1) ** 2 / count
    var, base_var = t2 * statistics.variance(above), t2 * statistics.variance(below)
    both = t2 * statistics.covariance(above, below)
    # Fieller: all r with (mean - r base)^2 <= t^2 (var - 2 r both + r^2 base_var).
    square, half, rest = base ** 2 - base_var, mean * base - both, mean ** 2 - var
    if square <= 0:
        return None
    root = math.sqrt(max(half ** 2 - square * rest, 0))
    return (half - root) / square, (half + root) / square


def student(freedom, share=0.95):
    """The t beyond which lies 1 - `share` of Student's distribution, on both sides together.

    >>> [f"{student(freedom):.3f}" for freedom in (1, 2, 4.5, 38, 1000)]
    ['12.706', '4.303', '2.659', '2.024', '1.962']
    """
    # With t = sqrt(freedom) tan(angle) the density is cos(angle)^(freedom - 1), up to a factor.
    whole = math.sqrt(math.pi) / 2 * math.exp(math.lgamma(freedom / 2) - math.lgamma((freedom + 1) / 2))
    low, high = 0.0, math.pi / 2
    for _ in range(50):
        angle = (low + high) / 2
        if simpson(lambda x: math.cos(x) ** (freedom - 1), angle) < share * whole:
            low = angle
        else:
            high = angle
    return math.sqrt(freedom) * math.tan(low)


def simpson(function, end, steps=400):
    """The integral from 0 to `end`."""
    width = end / steps
    inner = sum((4 if step % 2 else 2) * function(step * width) for step in range(1, steps))
    return width / 3 * (function(0.0) + inner + function(end))
