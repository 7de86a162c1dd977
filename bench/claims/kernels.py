"""How near kernels come to the bounds of a machine, and what threads are worth."""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.claims.values import rows
from bench.figures import Claim, record
from bench.rooflines import ARITHMETIC, BANDWIDTH

PAGE = "docs/kernels.md"
SETS = ("avx2", "avx512")
OPS = (
    "channelwise_product, mul_ir",
    "channelwise_product_backward, mul_ir",
    "channelwise_product_double_backward, mul_ir",
    "channelwise_conv, mul_ir",
    "channelwise_conv_backward, mul_ir",
    "radial_conv, mul_ir",
    "so2_conv",
    "block_linear, mul_ir",
    "block_linear_backward, mul_ir",
    "symmetric_contraction, mul_ir",
    "fully_connected_product, mul_ir",
    "spherical_harmonics",
    "segment_attention",
    "attention_conv",
    "principal_axes",
)


def largest(isa: str) -> list[dict[str, Any]]:
    """Rows of the largest graphs."""
    found = record(f"rooflines_{isa}")["rows"]
    edges = max(row["edges"] for row in found)
    return rows(f"rooflines_{isa}", edges=edges)


def of_op(op: str) -> list[float]:
    """Shares of bandwidth and arithmetic and the efficiency of threads, in percent, of all sets."""
    parts = ("share of bandwidth", "share of arithmetic", "efficiency")
    found = [row for isa in SETS for row in largest(isa) if row["op"] == op]
    return [100 * row[part] for row in found for part in parts]


def machine() -> list[float]:
    """Bandwidth and then arithmetic with one thread and with two, of all sets."""
    found: list[float] = []
    for isa in SETS:
        bounds = record(f"rooflines_{isa}")["machine"]
        for name in (BANDWIDTH, ARITHMETIC):
            found += [bounds[threads][name] for threads in ("1", "2")]
    return found


def slowest_with_threads() -> float:
    """Return the smallest speed-up by a second thread, from the fastest repetitions."""
    found = [row["seconds"] for isa in SETS for row in rows(f"rooflines_{isa}")]
    return min(min(seconds["1"]) / min(seconds["2"]) for seconds in found)


KERNELS = [
    Claim(
        PAGE,
        "a copy moves {} GB/s with one thread and {} GB/s with two, products do {} and {} thousand "
        "million multiply-adds a second by AVX2 (in the run of AVX-512 {} and {} GB/s, {} and {})",
        machine,
    ),
    Claim(PAGE, "two threads are at worst {} % slower than one, by the fastest repetitions",
          lambda: [100 * (1 - slowest_with_threads())]),
    *(
        Claim(PAGE, f"| `{op}` | {{}} / {{}} | {{}} | {{}} / {{}} | {{}} |", partial(of_op, op))
        for op in OPS
    ),
]  # fmt: skip
