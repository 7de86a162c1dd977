"""Published counts of cost and reach of products."""

from __future__ import annotations

from typing import Literal

Setting = Literal["siso", "simo", "mimo"]


def count_paths(
    lmax: int,
    # parity of the sum of degrees; natural-parity signals couple on even paths only
    parity: Literal["all", "even", "odd"] = "all",
) -> int:
    """Count triples of input degrees up to lmax and output degrees within the triangle rule."""
    _check_degree(lmax)
    n = lmax + 1
    # Sums of 2 min(l1, l2) + 1 over l1 and l2, and of those degrees whose sum with l1 + l2 is even.
    counts = {
        "all": n * (2 * n * n + 1) // 3,
        "even": n * (n + 1) * (2 * n + 1) // 6,
        "odd": lmax * n * (2 * lmax + 1) // 6,
    }
    if parity not in counts:
        raise ValueError(f'parity must be "all", "even" or "odd", got {parity!r}')
    return counts[parity]


def published_freedom(
    name: str,  # row of compare; the part before the first space counts
    lmax: int,
    setting: Setting,
) -> int | None:
    """Return the degrees of freedom in "The Price of Freedom", or None if not published."""
    _check_degree(lmax)
    # For Clebsch-Gordan products the paper counts all paths, though only even ones were computed.
    freedoms = {
        "full": {"siso": 1, "simo": 2 * lmax + 1, "mimo": count_paths(lmax)},
        "gaunt": {"siso": 1 - lmax % 2, "simo": lmax + 1, "mimo": 4 * lmax + 1},
        "matrix": {"siso": 1, "simo": 2 * lmax + 1, "mimo": 4 * lmax + 1},
        "vector_signal": {"mimo": 6 * lmax + 1},
    }
    kind = name.split()[0].removesuffix("_sparse")
    return freedoms.get(kind, {}).get(setting)


def published_flops(
    name: Literal["gaunt grid", "matrix"],
    lmax: int,  # largest input degree; outputs go up to twice it
) -> int:
    """Return the operations per sample of the reference code of the paper, MIMO."""
    _check_degree(lmax)
    n, size = (lmax + 1) ** 2, (2 * lmax + 1) ** 2
    # As reported by the compiler. The code transforms to the grid without separating the axes and
    # multiplies matrices over all pairs of degrees, so both numbers are far above the minimum.
    if name == "matrix":
        return 6 * n**3 + 2 * n**2 * size
    if name != "gaunt grid":
        raise ValueError(f'name must be "gaunt grid" or "matrix", got {name!r}')
    latitudes, longitudes = 2 * lmax + 1, 4 * lmax + 2
    orders_in, orders_out = 2 * lmax + 1, 4 * lmax + 1
    inwards = orders_in * latitudes * n + orders_in * latitudes * longitudes
    outwards = latitudes * longitudes * orders_out + orders_out * latitudes * size
    # Two inputs, and two operations for each multiply-accumulate.
    return 4 * inwards + latitudes * longitudes + 2 * outwards + latitudes * orders_out


def _check_degree(lmax: int) -> None:
    if lmax < 0:
        raise ValueError(f"lmax must not be negative, got {lmax}")
