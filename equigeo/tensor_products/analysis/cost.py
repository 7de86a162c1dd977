"""Published degrees of freedom of products."""

from __future__ import annotations

from typing import Literal

Setting = Literal["siso", "simo", "mimo"]


def published_freedom(
    name: str,  # row of compare; the part before the first space counts
    lmax: int,
    setting: Setting,
) -> int | None:
    """Return the degrees of freedom in "The Price of Freedom", or None if not published."""
    # For Clebsch-Gordan products the paper counts all paths, though only even ones were computed:
    # 2 min(l1, l2) + 1 for each l1 and l2.
    n = lmax + 1
    freedoms = {
        "full": {"siso": 1, "simo": 2 * lmax + 1, "mimo": n * (2 * n * n + 1) // 3},
        "gaunt": {"siso": 1 - lmax % 2, "simo": lmax + 1, "mimo": 4 * lmax + 1},
        "matrix": {"siso": 1, "simo": 2 * lmax + 1, "mimo": 4 * lmax + 1},
        "vector_signal": {"mimo": 6 * lmax + 1},
    }
    kind = name.split()[0].removesuffix("_sparse")
    return freedoms.get(kind, {}).get(setting)
