"""How often the summary's 95 % intervals over few seeds hold the true value: simulated, and printed as a table.

    python benchmarks/coverage.py [--experiments 1000] [--compare]

A simulated experiment is a set of seeds, each with the digit's and the bits' accuracy at strengths 0, 5, 10 and 15: the true
accuracy plus noise, cut to [0, 1] and independent from cell to cell. The true value of a number is what the mean accuracies
give. Two profiles: `open`, where the digit's accuracy falls from .90 to .15, and `edge`, where retentions lie at 0 or 1, the
bits' accuracies at 1, and the cuts bite. `--compare` prints other intervals for the same experiments beside the one in use.
"""

import argparse
import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaincinv, ndtri, stdtrit
from scipy.stats import norm

from generators.randomness import random_words, stream_key, uniform
from suppression_bench.results import suppression

STRENGTHS, CHANCE = [0, 5, 10, 15], {"digit": 0.1, "bits": 0.5}
PROFILES = {  # accuracies by strength; the bits are probed where there are any
    "open": {"digit": [0.90, 0.75, 0.40, 0.15], "bits": [0.97, 0.90, 0.80]},
    "edge": {"digit": [0.97, 0.96, 0.94, 0.11], "bits": [1.00, 0.995, 0.96]},
}
DEVIATIONS = [0.005, 0.02, 0.05]
SEEDS = [3, 5, 10]


def normal(u: np.ndarray) -> np.ndarray:
    return ndtri(u)


def skewed(u: np.ndarray) -> np.ndarray:
    # A long tail of bad runs: a mirrored gamma distribution of skewness -1.
    return (4 - gammaincinv(4.0, u)) / 2


def bimodal(u: np.ndarray) -> np.ndarray:
    # Two normal humps of equal weight, their centres four of their own deviations apart.
    inner = np.where(u < 0.5, ndtri(np.clip(2 * u, 1e-12, 1)), ndtri(np.clip(2 * u - 1, 1e-12, 1)))
    return (inner + np.where(u < 0.5, -2.0, 2.0)) / math.sqrt(5)


def rare(u: np.ndarray) -> np.ndarray:
    # One run in five fails: a hump of weight .2 lies three deviations of the other below it.
    inner = np.where(u < 0.2, ndtri(np.clip(5 * u, 1e-12, 1)), ndtri(np.clip((u - 0.2) / 0.8, 1e-12, 1)))
    return (inner + np.where(u < 0.2, -2.4, 0.6)) / math.sqrt(1 + 1.44)


def two_outcomes(u: np.ndarray) -> np.ndarray:
    # One of two values and next to nothing between: three seeds are alike in a quarter of the experiments.
    return np.where(u < 0.5, -1.0, 1.0) + 0.05 * (np.where(u < 0.5, 2 * u, 2 * u - 1) - 0.5)


NOISES = {
    "normal": normal,
    "skewed": skewed,
    "bimodal": bimodal,
    "one in five fails": rare,
    "two outcomes": two_outcomes,
}


def accuracies(
    profile: str, noise: str, deviation: float, count: int, experiments: int
) -> tuple[np.ndarray, np.ndarray]:
    """Simulated accuracies (experiments, seeds, 7), the digit's and then the bits', and their true means (7,)."""
    centre = np.concatenate(list(PROFILES[profile].values()))
    key = stream_key("coverage", 1, f"{profile} {noise} {deviation}", count)
    drawn = uniform(random_words(key, 0, count=experiments * count * len(centre))) + 2.0**-54
    shape = NOISES[noise]
    values = np.clip(centre + deviation * shape(drawn).reshape(experiments, count, -1), 0, 1)
    # The cut at 0 and 1 moves the mean: it is taken over a hundred thousand even quantiles.
    even = shape((np.arange(100_000) + 0.5) / 100_000)
    return values, np.array([np.clip(mean + deviation * even, 0, 1).mean() for mean in centre])


def digit(means: list[float]) -> list[float | None]:
    return [suppression.retention(value, CHANCE["digit"], means[0]) for value in means[1:4]]


def bits(means: list[float]) -> list[float | None]:
    return [suppression.retention(value, CHANCE["bits"], 1.0) for value in means[4:]]


STATISTICS = {
    "retention": (lambda means: digit(means)[1], (-math.inf, math.inf)),
    "SI": (lambda means: suppression.suppression_index(digit(means)), (0.0, 1.0)),
    "score": (lambda means: suppression.score(list(zip(digit(means), bits(means), strict=True))), (0.0, 1.0)),
}


@lru_cache(maxsize=8)
def weights(count: int) -> tuple[list[bytes], np.ndarray]:
    """The resamples' names, and the share of each seed in them; the last is the whole sample."""
    rows = np.concatenate([suppression.resamples(count)[0], np.arange(count)[None]])
    return [row.tobytes() for row in rows], np.stack([(rows == seed).mean(axis=1) for seed in range(count)], axis=1)


def of_means(statistic, values: np.ndarray):
    """The statistic as a function of positions of seeds, from means that are made for all resamples at once."""
    names, shares = weights(len(values))
    means = dict(zip(names, (shares @ values).tolist(), strict=True))
    return lambda seeds: statistic(means[seeds.tobytes()])


def in_use(statistic, count: int, limits: tuple) -> tuple:
    return suppression.interval(count, statistic, limits)


def _percentiles(statistic, count: int, limits: tuple, tail: float) -> tuple:
    positions, times = suppression.resamples(count)
    values = np.repeat([statistic(seeds) for seeds in positions], times)
    return float(np.quantile(values, tail)), float(np.quantile(values, 1 - tail))


def percentile(statistic, count: int, limits: tuple) -> tuple:
    return _percentiles(statistic, count, limits, 0.025)


def expanded(statistic, count: int, limits: tuple) -> tuple:
    # Hesterberg (2015): percentiles further out, so that a mean's interval is about as wide as Student's.
    tail = norm.cdf(stdtrit(count - 1, 0.025) * math.sqrt(count / (count - 1)))
    return _percentiles(statistic, count, limits, float(tail))


def plain(statistic, count: int, limits: tuple) -> tuple:
    # Without Student's t and the factor for few seeds: 1.96 bootstrap standard errors.
    low, high = suppression.interval(count, statistic)
    middle, reach = (
        (low + high) / 2,
        (high - low) / 2 * 1.96 / stdtrit(count - 1, 0.975) * math.sqrt((count - 1) / count),
    )
    return max(limits[0], middle - reach), min(limits[1], middle + reach)


OTHERS = {"percentile": percentile, "expanded percentile": expanded, "1.96 standard errors": plain}


def half_interval(values: np.ndarray) -> tuple:
    ends = [(1.0, 1.0)]
    for position in range(3):
        statistic = of_means(lambda means, position=position: digit(means)[position], values)
        ends.append(suppression.interval(len(values), statistic))
    return suppression.half_point_interval(STRENGTHS, ends)


def coverage(name: str, method, profile: str, noise: str, deviation: float, count: int, experiments: int) -> tuple:
    """The share of simulated experiments whose interval holds the true value, and the mean width."""
    values, true = accuracies(profile, noise, deviation, count, experiments)
    if name == "s50":
        truth = suppression.half_point(STRENGTHS, [1.0, *digit(true)])
        intervals = [half_interval(experiment) for experiment in values]
    else:
        statistic, limits = STATISTICS[name]
        truth = statistic(true)
        intervals = [method(of_means(statistic, experiment), count, limits) for experiment in values]
    held = [low - 1e-9 <= truth <= high + 1e-9 for low, high in intervals]
    widths = [high - low for low, high in intervals]
    return sum(held) / len(held), float(np.median(widths) if name == "s50" else np.mean(widths))


def table(names: list[str], method, experiments: int) -> None:
    heads = [f"SD {100 * deviation:g} points: holds, width" for deviation in DEVIATIONS]
    print(f"| number | profile | noise | n | {' | '.join(heads)} |\n|---|---|---|---|{'---|' * len(heads)}")
    for name in names:
        for profile in PROFILES:
            for noise in NOISES:
                for count in SEEDS:
                    results = [coverage(name, method, profile, noise, sd, count, experiments) for sd in DEVIATIONS]
                    texts = [f"{100 * share:.1f}, {width:.3f}" for share, width in results]
                    print(f"| {name} | {profile} | {noise} | {count} | {' | '.join(texts)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--experiments", type=int, default=1000, help="simulated experiments a row")
    parser.add_argument("--compare", action="store_true", help="other intervals as well")
    flags = parser.parse_args()
    if flags.experiments < 1000:
        parser.error(f"--experiments {flags.experiments}: give 1000 or more, a share of fewer says little")
    table([*STATISTICS, "s50"], in_use, flags.experiments)
    for label, method in OTHERS.items() if flags.compare else ():
        print(f"\n{label}\n")
        table(list(STATISTICS), method, flags.experiments)


if __name__ == "__main__":
    main()
