"""What products cost and reach by formula: the published counts for comparison."""

from __future__ import annotations

from typing import Literal

Setting = Literal["siso", "simo", "mimo"]


def count_paths(lmax: int, parity: Literal["all", "even", "odd"] = "all") -> int:
    """Count triples of degrees, both inputs up to ``lmax`` and all outputs.

    Parameters
    ----------
    lmax : int
        Largest input degree, included.
    parity : {"all", "even", "odd"}
        Of the sum of the three degrees. The product of two natural-parity signals has natural
        parity on even paths only.

    Returns
    -------
    int
        Triples within the triangle rule.

    Raises
    ------
    ValueError
        If ``lmax`` is negative or ``parity`` unknown.

    Examples
    --------
    >>> [count_paths(2, parity) for parity in ("all", "even", "odd")]
    [19, 14, 5]
    """
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


def published_freedom(name: str, lmax: int, setting: Setting) -> int | None:
    """Degrees of freedom by which "The Price of Freedom" divides times.

    For Clebsch-Gordan products it counts all paths, though only the even ones were computed.

    Parameters
    ----------
    name : str
        Of a row of :func:`compare`; what stands before the first space counts.
    lmax : int
        Largest input degree.
    setting : {"siso", "simo", "mimo"}
        As in :func:`compare`.

    Returns
    -------
    int or None
        None where nothing was published.

    Raises
    ------
    ValueError
        If ``lmax`` is negative.

    Examples
    --------
    >>> published_freedom("full", 3, "mimo"), published_freedom("gaunt grid", 3, "mimo")
    (44, 13)
    """
    _check_degree(lmax)
    freedoms = {
        "full": {"siso": 1, "simo": 2 * lmax + 1, "mimo": count_paths(lmax)},
        "gaunt": {"siso": 1 - lmax % 2, "simo": lmax + 1, "mimo": 4 * lmax + 1},
        "matrix": {"siso": 1, "simo": 2 * lmax + 1, "mimo": 4 * lmax + 1},
        "vector_signal": {"mimo": 6 * lmax + 1},
    }
    kind = name.split()[0].removesuffix("_sparse")
    return freedoms.get(kind, {}).get(setting)


def published_flops(name: Literal["gaunt grid", "matrix"], lmax: int) -> int:
    """Floating-point operations that the reference code of the paper spends on a sample, MIMO.

    It transforms to the grid without splitting latitude from longitude, and multiplies matrices
    that span all pairs of degrees, so both numbers are far above what is needed.

    Parameters
    ----------
    name : {"gaunt grid", "matrix"}
        The product.
    lmax : int
        Largest input degree; outputs go up to twice it.

    Returns
    -------
    int
        What the compiler reported, to the rounding of its float32 counter.

    Raises
    ------
    ValueError
        If ``lmax`` is negative or there is no formula for ``name``.

    Examples
    --------
    >>> [published_flops("gaunt grid", lmax) for lmax in (1, 2, 3)]
    [843, 5145, 17535]
    """
    _check_degree(lmax)
    n, size = (lmax + 1) ** 2, (2 * lmax + 1) ** 2
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
