"""Neighbours by matscipy, a cell list in C."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from equigeo.graphs.neighbors.point_system import Candidates
from equigeo.graphs.neighbors.search_box import SearchBox


def matscipy_list(box: SearchBox) -> Candidates:
    """List pairs within the cut-off of a box.

    Parameters
    ----------
    box : SearchBox
        Points inside a compact cell.

    Returns
    -------
    Candidates
        In no particular order.
    """
    source, target, shift = import_module("matscipy.neighbours").neighbour_list(
        "ijS", positions=box.points, cell=box.cell, pbc=box.pbc, cutoff=box.cutoff
    )
    return Candidates(
        np.stack([source, target], dtype=np.int64),
        shift.T.astype(np.int32, order="C") if box.pbc.any() else None,
    )
