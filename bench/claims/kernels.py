"""How near kernels come to the bounds of a machine, and what threads are worth."""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.claims.values import ends, rows
from bench.figures import Claim, record

PAGE = "docs/kernels.md"
SETS = ("avx2", "avx512")


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
    """Bandwidth and arithmetic with one thread and with two, of all sets."""
    bounds = [record(f"rooflines_{isa}")["machine"] for isa in SETS]
    return [value for of_set in bounds for one in of_set.values() for value in one.values()]


def threads_against_one() -> tuple[float, float]:
    """Least and greatest, of all ops and sizes."""
    return ends(row["threads against one"] for isa in SETS for row in rows(f"rooflines_{isa}"))


KERNELS = [
    Claim(
        PAGE,
        "copies {} GB/s with one thread (AVX2 run; {} thousand million multiply-adds a second)",
        machine,
    ),
    *(
        Claim(PAGE, f"| `{row['op']}` | {{}} / {{}} | {{}} | {{}} / {{}} | {{}} |",
              partial(of_op, row["op"]))
        for row in largest("avx2")
    ),
]  # fmt: skip
