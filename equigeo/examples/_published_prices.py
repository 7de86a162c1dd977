"""The figures of "The Price of Freedom", kept beside this file."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

# Rows of tp.compare, and the columns of the published tables that stand beside them.
PEERS = {
    "full even": "CG-dense",
    "full_sparse even": "CG-sparse",
    "gaunt grid": "GTP-grid",
    "gaunt fourier": "GTP-Fourier",
    "matrix": "MTP",
    "vector_signal": "VGTP-grid",
}


@cache
def published_prices() -> dict[str, Any]:
    """Read the published figures.

    Returns
    -------
    dict
        ``source``, ``note``, ``times`` (tables whose columns run over L = 1, 2, ...),
        ``microseconds_per_degree_of_freedom`` and ``flops_per_sample``.

    Examples
    --------
    >>> published_prices()["flops_per_sample"]["columns"]["GTP-grid"][:3]
    [843, 5145, 17535]
    """
    text = files("equigeo.examples").joinpath("price_of_freedom.json").read_text("utf-8")
    figures: dict[str, Any] = json.loads(text)
    return figures


def published_milliseconds(product: str, lmax: int, setting: str) -> float | None:
    """Look up the published time of a product on a CPU, batch 10,000.

    Parameters
    ----------
    product : str
        Name of a row of :func:`equigeo.tensor_products.compare`.
    lmax : int
        Degree of the inputs.
    setting : str
        ``siso``, ``simo`` or ``mimo``.

    Returns
    -------
    float or None
        None where there is none. It is another machine and another library: compare how times grow
        and which product wins, not the times.

    Examples
    --------
    >>> published_milliseconds("gaunt grid", 2, "mimo")
    1.89
    """
    tables = (t for t in published_prices()["times"] if t["device"].startswith("CPU"))
    columns = next(table["columns"] for table in tables if table["setting"] == setting)
    column: list[float | None] = columns.get(PEERS.get(product), [])
    return column[lmax - 1] if lmax <= len(column) else None
