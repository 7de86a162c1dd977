"""Published figures of "The Price of Freedom"."""

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
    """Load the published figures as JSON types; columns run over L = 1, 2, ..."""
    text = files("equigeo.examples").joinpath("price_of_freedom.json").read_text("utf-8")
    figures: dict[str, Any] = json.loads(text)
    return figures


def published_milliseconds(
    product: str,  # row of `tp.compare`
    lmax: int,  # of the inputs
    setting: str,  # "siso", "simo" or "mimo"
) -> float | None:
    """Return the published time on a CPU at batch 10,000; None if there is none."""
    tables = (t for t in published_prices()["times"] if t["device"].startswith("CPU"))
    columns = next(table["columns"] for table in tables if table["setting"] == setting)
    column: list[float | None] = columns.get(PEERS.get(product), [])
    return column[lmax - 1] if lmax <= len(column) else None
