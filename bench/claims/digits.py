"""Figures of digits under affine maps and of group convolutions."""

from __future__ import annotations

from bench.claims.values import FIGURES, README, percent, runs
from bench.figures import Claim, record

TESTS = ("affNIST", "homNIST", "centred")


def digits(name: str, *more: str) -> list[float]:
    """Accuracies of the only run, and other entries."""
    (run,) = runs(name)
    return [*percent(run[test] for test in TESTS), *(run[entry] for entry in more)]


def change(name: str) -> float:
    """Change of the logits of a trained network from map to map."""
    return float(runs(f"affnist_{name}")[0]["logit change, trained"]["rendered against rendered"])


def quadrature(samples: int) -> list[float]:
    found = [row for row in record("affine_equivariance")["quadrature"] if "stretch" in row]
    return [row["error"] for row in found if row["samples"] == samples]


NETWORK = "| {} % | {} % | {} % | {} | {} | {} epochs, {} s"
ENTRIES = ("parameters", "GFLOP for an image", "epochs", "training seconds")
DIGITS = [
    Claim(
        FIGURES,
        f"| `default`, seed 0 {NETWORK} |",
        lambda: digits("affnist_default", *ENTRIES),
    ),
    Claim(
        FIGURES,
        f"| plain CNN behind `MomentFrame`, seed 0 {NETWORK} |",
        lambda: digits("affnist_frame-cnn", *ENTRIES),
    ),
    Claim(
        FIGURES,
        f"| plain CNN of equal cost, seed 0 {NETWORK} |",
        lambda: digits("affnist_cnn", *ENTRIES),
    ),
    Claim(
        FIGURES,
        "they change by {} of their deviation across images, against {} for the plain CNN and {} for "
        "the CNN behind the frame",
        lambda: [change(name) for name in ("default", "cnn", "frame-cnn")],
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
