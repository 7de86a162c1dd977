"""Neighbours by the cell lists of vesin (C++) and matscipy (C)."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from equigeo.graphs.neighbors.point_system import Candidates
from equigeo.graphs.neighbors.search_box import SearchBox


def vesin_list(box: SearchBox) -> Candidates:
    """Return pairs within the cutoff of a box by vesin, unsorted."""
    # One thread: who calls from many has taken the cores already.
    search = import_module("vesin").NeighborList(cutoff=box.cutoff, full_list=True, n_threads=1)
    pairs, shift = search.compute(
        points=box.points, box=box.cell, periodic=box.pbc, quantities="PS", copy=False
    )
    # Copies: the arrays are views of memory that goes with the search.
    return Candidates(
        pairs.T.astype(np.int64, order="C"),
        shift.T.astype(np.int32, order="C") if box.pbc.any() else None,
    )


def matscipy_list(box: SearchBox) -> Candidates:
    """Return pairs within the cutoff of a box by matscipy, unsorted."""
    source, target, shift = import_module("matscipy.neighbours").neighbour_list(
        "ijS", positions=box.points, cell=box.cell, pbc=box.pbc, cutoff=box.cutoff
    )
    return Candidates(
        np.stack([source, target], dtype=np.int64),
        shift.T.astype(np.int32, order="C") if box.pbc.any() else None,
    )
