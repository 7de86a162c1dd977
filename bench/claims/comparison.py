"""Figures of the page that compares libraries."""

from __future__ import annotations

from bench.claims.cuda import CONTRACTION, PRODUCT, THEIRS, behind, milliseconds
from bench.claims.digits import quadrature
from bench.claims.meshes import attention
from bench.claims.products import in_both_modes
from bench.claims.values import ends
from bench.figures import Claim

PAGE = "docs/comparison.md"


def with_gradients(problem: str, peer: str) -> float:
    """Return the speed-up of forward and backward on the H100."""
    return milliseconds(problem, peer)[1] / milliseconds(problem, "ours")[1]


COMPARISON = [
    Claim(
        PAGE,
        "is {}x faster on two CPU cores with gradients, and {}x faster on an H100",
        lambda: [
            in_both_modes("mace-large, 8192 edges", "e3nn")[2],
            with_gradients("channelwise_product, mace-large", "e3nn"),
        ],
    ),
    Claim(PAGE, "ours are slower by factors of {} to {}.", lambda: ends(behind(PRODUCT))),
    Claim(
        PAGE,
        "is {}x faster than cuEquivariance's fastest mode",
        lambda: in_both_modes("mace-large, 8192 edges", "cuEquivariance")[3:4],
    ),
    Claim(
        PAGE,
        "which are {}x faster with gradients",
        lambda: [with_gradients(CONTRACTION, THEIRS)],
    ),
    Claim(PAGE, "takes {} ms here and {} ms by PyTorch Geometric's", attention),
    Claim(
        PAGE,
        "{} to {} with {} samples of SL(2)",
        lambda: [*ends(quadrature(392)), 392],
    ),
]
