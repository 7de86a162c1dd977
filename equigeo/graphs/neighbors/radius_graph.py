"""Graph of all points within a radius."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from equigeo.graphs.inputs import TensorLike
from equigeo.graphs.neighbors.backends.backend import Backend
from equigeo.graphs.neighbors.backends.switch import choose_backend
from equigeo.graphs.neighbors.edge_order import sort_edges
from equigeo.graphs.neighbors.edge_search import find_edges
from equigeo.graphs.neighbors.given_systems import (
    as_doubles,
    given_cutoff,
    given_flag,
    given_offsets,
    given_points,
)
from equigeo.graphs.neighbors.point_system import Candidates, Integers, PointSystem, check_system


def radius_graph(
    positions: TensorLike,
    cutoff: float,
    batch: TensorLike | None = None,
    *,
    ptr: TensorLike | None = None,
    loop: bool = False,
    backend: str = "auto",
) -> Tensor:
    """Connect all points of a cloud within a radius, without a limit on their number.

    In three dimensions these are the edges of :func:`equigeo.graphs.neighbor_list` without a cell;
    see there for ``batch``, ``ptr``, ``backend`` and errors. Invariant to isometries; permuting
    points permutes edges.

    Parameters
    ----------
    positions : Tensor or ndarray, (points, dim), floating
        Points of all clouds, of any dimension.
    cutoff : float
        The radius; points at exactly this distance are not connected.
    loop : bool
        Whether to connect every point to itself, too.

    Returns
    -------
    Tensor, (2, edges), int64
        Row 0 sources, row 1 targets; sorted by target, then source.

    Examples
    --------
    >>> radius_graph(torch.tensor([[0.0], [1.0], [1.5]]), 1.0)
    tensor([[2, 1],
            [1, 2]])
    """
    points, reach = given_points(positions), given_cutoff(cutoff)
    given_flag(loop, "loop")
    offsets, _ = given_offsets(points, batch, ptr)
    dim = points.shape[1]
    chosen = choose_backend(backend, False)
    values = as_doubles(points)
    no_cell, no_axis = np.zeros((dim, dim)), np.zeros(dim, np.bool_)
    parts = [np.zeros((2, 0), np.int64)]
    for start, end in pairwise(offsets):
        system = PointSystem(values[start:end], no_cell, no_axis, reach)
        check_system(system)
        parts.append(start + _edges(system, chosen, loop))
    return torch.from_numpy(np.concatenate(parts, axis=1)).to(points.device)


def _edges(system: PointSystem, backend: Backend, loop: bool) -> Integers:
    pairs = find_edges(system, backend).pairs
    if not loop:
        return pairs
    count = len(system.positions)
    loops = np.tile(np.arange(count), (2, 1))
    return sort_edges(Candidates(np.concatenate([pairs, loops], axis=1), None), count).pairs
