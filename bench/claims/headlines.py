"""How far the figures of the README may be off: intervals, and runs repeated as a whole."""

from __future__ import annotations

from functools import partial
from statistics import median

from bench.claims.values import FIGURES, ends, percent, rows, runs
from bench.figures import Claim, record
from bench.intervals import LEVEL, of_accuracy, of_ratio

REPEATED = ("channelwise", "channelwise_repeated_1", "channelwise_repeated_2")


def accelerated(model: str, circumstances: str = "") -> list[float]:
    """Interval from the rounds of all runs, each run with its own load."""
    found = runs(f"interop_models_{model}{circumstances}")
    sides = ([t for run in found for t in run["seconds"][side]] for side in ("before", "after"))
    return list(of_ratio(*sides))


def repeated(model: str) -> list[float]:
    return list(ends(record(f"interop_models_{model}")["ratios"]))


def seconds(of: str) -> dict[str, list[float]]:
    """Rounds of mace-large with 8,192 edges, two threads, by what was timed."""
    (row,) = rows(of, problem="mace-large", edges=8192, threads=2, **{"results kept": True})
    found: dict[str, list[float]] = row["seconds"]
    return found


def against_e3nn(of: str, *, fastest: bool) -> tuple[list[float], list[float]]:
    """Rounds of e3nn, as it is or in its fastest mode, and ours, with gradients."""
    found = seconds(of)
    modes = [n for n in found if n.startswith("e3nn") and n.endswith(" both")]
    name = min(modes, key=lambda n: median(found[n])) if fastest else "e3nn both"
    return found[name], found["ours mul_ir both"]


def channelwise(fastest: bool) -> list[float]:
    """Interval of the first run, and ends of all."""
    pairs = [against_e3nn(of, fastest=fastest) for of in REPEATED]
    return [*of_ratio(*pairs[0]), *ends(median(theirs) / median(ours) for theirs, ours in pairs)]


def accuracy(name: str, entry: str, number: int) -> list[float]:
    """Interval of one run."""
    (run, *_) = runs(name)
    return percent(of_accuracy(run[entry], number))


def shapes(series: str) -> list[float]:
    """Interval of all predictions of a series, and ends of its runs."""
    found = runs(f"shrec11_{series}")
    number = sum(run["test meshes"] for run in found)
    correct = sum(run["accuracy"] * run["test meshes"] for run in found)
    return percent([*of_accuracy(correct / number, number), *ends(r["accuracy"] for r in found)])


def clouds(network: str) -> list[float]:
    """Interval of all predictions on rotated clouds, and ends of the runs."""
    found = runs(f"modelnet10_{network}")
    shares = [run["accuracy"]["rotated"] for run in found]
    number = found[0]["clouds"]
    mean = sum(shares) / len(shares)
    return percent([*of_accuracy(mean, number), *ends(shares)])


def large_mesh() -> list[float]:
    """Seconds of three repetitions, fresh memory in the first."""
    (row,) = rows("mesh_scale", allocator="as is", case="classifier", faces=1_002_528)
    return list(ends(sum(p["seconds"] for p in r.values()) for r in row["repetitions"]))


DIGITS = 10_000  # different ones; two images of one digit are no independent predictions
HEADLINES = [
    Claim(FIGURES, "Intervals of {} % (", lambda: [100 * LEVEL]),
    Claim(FIGURES, "| MACE, accelerated | {} to {} | {} to {}, three runs |",
          lambda: [*accelerated("mace"), *repeated("mace")]),
    Claim(FIGURES, "| NequIP, accelerated | {} to {} | {} to {}, three runs |",
          lambda: [*accelerated("nequip"), *repeated("nequip")]),
    *(
        Claim(FIGURES, f"| {words}, memory kept for both | {{}} to {{}} | |",
              partial(accelerated, model, "_memory_kept"))
        for words, model in (("MACE", "mace"), ("NequIP", "nequip"))
    ),
    *(
        Claim(FIGURES, f"against e3nn {words} | {{}} to {{}} | {{}} to {{}}, three runs |",
              partial(channelwise, fastest))
        for fastest, words in ((False, "in eager mode"), (True, "in its fastest mode"))
    ),
    *(
        Claim(FIGURES, f"| SHREC'11, {words} | {{}} to {{}} % | {{}} to {{}} %, {several} |",
              partial(shapes, series))
        for words, series, several in (
            ("split 16", "split16_default", "five seeds"),
            ("split 10", "split10_default", "ten draws"),
        )
    ),
    *(
        Claim(FIGURES, f"| {test} | {{}} to {{}} % | |",
              partial(accuracy, "affnist_frame-cnn", test, DIGITS))
        for test in ("affNIST", "homNIST")
    ),
    Claim(FIGURES, "| ModelNet10 rotated, embedded | {} to {} % | {} to {} %, three seeds |",
          lambda: clouds("mds")),
    Claim(FIGURES, "| ModelNet10 rotated, without | {} to {} % | {} to {} %, three seeds |",
          lambda: clouds("plain")),
    Claim(FIGURES, "| a million faces, seconds | | {} to {}, three repetitions |", large_mesh),
]  # fmt: skip
