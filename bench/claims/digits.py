"""Figures of digits under affine maps and of group convolutions."""

from __future__ import annotations

from statistics import mean

from bench.claims.values import FIGURES, README, ends, percent, rows, runs
from bench.figures import Claim, record

TESTS = ("affNIST", "homNIST", "centred")


def digits(name: str, *more: str) -> list[float]:
    """Accuracies of the only run, and other entries."""
    (run,) = runs(name)
    return [*percent(run[test] for test in TESTS), *(run[entry] for entry in more)]


def changes(name: str, when: str = "trained") -> list[float]:
    """Change of the logits from map to map and from the centred digit to a map."""
    found = runs(name)[0][f"logit change, {when}"]
    return [found["rendered against rendered"], found["centred against rendered"]]


def untrained(kind: str) -> list[float]:
    found = [run["logit change, untrained"][kind] for run in runs("affnist_untrained")]
    return [*ends(found), mean(found)]


def quadrature(samples: int) -> list[float]:
    found = [row for row in record("affine_equivariance")["quadrature"] if "stretch" in row]
    return [row["error"] for row in found if row["samples"] == samples]


def images(pixels: int) -> list[float]:
    return [row["error"] for row in rows("affine_equivariance", "image layers", pixels=pixels)]


def slopes(group: str) -> list[float]:
    """Absolute: the sign is no part of a number on a page."""
    return [-row["slope"] for row in rows("affine_equivariance", "slopes", group=group)]


NETWORK = "| {} % | {} % | {} % | {} | {} | {} epochs, {} s"
ENTRIES = ("parameters", "GFLOP for an image", "epochs", "training seconds")
DIGITS = [
    Claim(
        FIGURES,
        f"| `default`, seed 0 {NETWORK} on one thread",
        lambda: digits("affnist_default", *ENTRIES),
    ),
    Claim(
        FIGURES,
        f"(`affnist_frame-cnn.json`) {NETWORK} |",
        lambda: digits("affnist_frame-cnn", *ENTRIES),
    ),
    Claim(
        FIGURES,
        f"| a plain CNN of equal cost, seed 0 {NETWORK} |",
        lambda: digits("affnist_cnn", *ENTRIES),
    ),
    Claim(
        FIGURES,
        "| the published network (`paper`) | | | | {} | {} | not trained here |",
        lambda: [runs("affnist_paper")[0][name] for name in ENTRIES[:2]],
    ),
    Claim(
        FIGURES,
        "(`affnist_untrained.json`): {} to {} (mean {}) and {} to {} (mean {}).",
        lambda: [*untrained("rendered against rendered"), *untrained("centred against rendered")],
    ),
    Claim(
        FIGURES,
        "{} from map to map and {} from the centred digit; the plain CNN has {} and {} (before "
        "training {} and {}), behind the frame {} and {} ({} and {})",
        lambda: [
            *changes("affnist_default"),
            *changes("affnist_cnn"), *changes("affnist_cnn", "untrained"),
            *changes("affnist_frame-cnn"), *changes("affnist_frame-cnn", "untrained"),
        ],
    ),
    *(
        Claim(FIGURES, f"| {n:,} | {{}} | {{}} | {{}} |", lambda n=n: quadrature(n))
        for n in (392, 972, 2704)
    ),
    *(
        Claim(FIGURES, f"{n} pixels | {{}} | {{}} | {{}} |", lambda n=n: images(n))
        for n in (40, 80, 160)
    ),
    Claim(
        FIGURES,
        "SO(2) -{}, SL(2) -{}, -{} and -{} (64 to 4,096 samples), GL+(2) -{}, -{} and -{}, SO(3) -{}, "
        "GL+(3) -{} and -{} under",
        lambda: [
            *slopes("SO(2)"), *slopes("SL(2)"), *slopes("GLPlus(2)"), *slopes("SO(3)"),
            *slopes("GLPlus(3)"),
        ],
    ),
    *(
        Claim(
            "docs/tutorials/affine.py",
            f'"stretch {size}": (numbers, ({{}}, {{}}, {{}}))',
            lambda index=index: [quadrature(n)[index] for n in (392, 972, 2704)],
        )
        for index, size in ((0, 0.1), (2, 0.6))
    ),
    Claim(
        README,
        "trained on centred MNIST alone | {} %, {} % |",
        lambda: digits("affnist_frame-cnn")[:2],
    ),
]  # fmt: skip
