"""Graphs of all points within a radius, and of the nearest points."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
import torch
from torch import Tensor

from equigeo._core.checks import TensorLike, kind_of
from equigeo._core.tensors import lasting, without_transforms
from equigeo.graphs.backend_choice import choose_backend
from equigeo.graphs.backends import Backend, check_size, cluster_nearest, plain_tree
from equigeo.graphs.cell_list import Found, cell_edges
from equigeo.graphs.edge_search import find_edges, sort_edges
from equigeo.graphs.systems import (
    LARGEST_LENGTH,
    Candidates,
    Doubles,
    Integers,
    PointSystem,
    given_cutoff,
    given_flag,
    given_offsets,
    given_points,
    valid_systems,
)

_AT_ONCE: Final = 2**20  # distances
_AT_ONCE_ON_DEVICE: Final = 2**24
_MOST_ON_DEVICE: Final = 2**14  # points of a cloud up to which `auto` compares all pairs on a GPU
_MOST_FACTOR: Final = 1000  # exponent of a factor that float64 can hold
_MOST_EXPONENT: Final = 256  # of coordinates whose squares neither vanish nor overflow


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
    offsets, numbers = given_offsets(points, batch, ptr)
    chosen = choose_backend(backend, False, points.device.type)
    systems = partial(valid_systems, points, reach, offsets)
    if chosen.on_device and len(points):
        with lasting(points):
            x = without_transforms(points).double()
            numbers = None if numbers is None else without_transforms(numbers)

            def measure(pairs: Found) -> Tensor:
                return x.index_select(0, pairs.target) - x.index_select(0, pairs.source)

            count = len(offsets) - 1
            found = cell_edges(x, reach, numbers, count, None, measure, systems, bool(loop))
            return torch.stack([found.source, found.target])
    parts = [
        start + _edges_within(system, chosen, loop)
        for start, system in zip(offsets[:-1], systems(), strict=True)
    ]
    return _joined(parts).to(points.device)


def _joined(parts: list[Integers]) -> Tensor:
    return torch.from_numpy(np.concatenate([np.zeros((2, 0), np.int64), *parts], axis=1))


def _edges_within(system: PointSystem, backend: Backend, loop: bool) -> Integers:
    pairs = find_edges(system, backend).pairs
    if not loop:
        return pairs
    count = len(system.positions)
    loops = np.tile(np.arange(count), (2, 1))
    return sort_edges(Candidates(np.concatenate([pairs, loops], axis=1), None), count).pairs


def knn_graph(
    positions: TensorLike,
    k: int,
    batch: TensorLike | None = None,
    *,
    ptr: TensorLike | None = None,
    loop: bool = False,
    backend: str = "auto",
) -> Tensor:
    """Connect every point to the nearest points of its cloud.

    Of points at equal distance in float64, the one with the lower index counts as nearer, for every
    backend. See :func:`equigeo.graphs.neighbor_list` for ``batch``, ``ptr`` and errors. Invariant
    to similarities; permuting points permutes edges, except for ties.

    Parameters
    ----------
    positions : Tensor or ndarray, (points, dim), floating
        Points of all clouds, of any dimension.
    k : int
        Number of neighbors; clouds with fewer points use all.
    loop : bool
        Whether a point counts as its own neighbor at distance zero.
    backend : str
        ``auto`` (``cells`` for CUDA tensors with at most 16,384 points per cloud, otherwise
        ``scipy``), ``cells`` (comparing all pairs in blocks on the device of the positions),
        ``scipy``, ``torch-cluster`` or ``brute``.

    Returns
    -------
    Tensor, (2, edges), int64
        Row 0 the neighbors, row 1 the points; sorted by row 1, nearest first.

    Examples
    --------
    >>> knn_graph(torch.tensor([[0.0], [1.0], [5.0]]), 2)
    tensor([[1, 2, 0, 2, 1, 0],
            [0, 0, 1, 1, 2, 2]])
    """
    points = given_points(positions)
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        raise TypeError(f"k must be an integer, got {kind_of(k)}")
    if k < 0:
        raise ValueError(f"k must not be negative, got {k}")
    given_flag(loop, "loop")
    offsets, _ = given_offsets(points, batch, ptr)
    largest = max((end - start for start, end in pairwise(offsets)), default=0)
    device = points.device.type if largest <= _MOST_ON_DEVICE else "cpu"
    chosen = choose_backend(backend, False, device)
    systems = partial(valid_systems, points, 1.0, offsets)
    if chosen.on_device and len(points):
        with lasting(points):
            x = without_transforms(points).double()
            if not float(x.abs().amax()) <= LARGEST_LENGTH:
                systems()  # raises
            found = [
                start + _nearest_on_device(x[start:end], int(k), loop)
                for start, end in pairwise(offsets)
            ]
            return torch.cat(found, dim=1)
    parts = [
        start + _nearest_edges(system.positions, int(k), loop, _SEARCHES[chosen.name])
        for start, system in zip(offsets[:-1], systems(), strict=True)
    ]
    return _joined(parts).to(points.device)


def _nearest_on_device(points: Tensor, k: int, loop: bool) -> Tensor:
    """Return the edges of one cloud, (2, edges), by distances of all pairs in blocks of rows."""
    count = len(points)
    wanted = min(k, count if loop else count - 1)
    if wanted <= 0:
        return torch.zeros(2, 0, dtype=torch.int64, device=points.device)
    check_size(float(count) * wanted, 6, "pairs", "k", points.device)
    exponent = math.frexp(float(points.abs().amax()))[1]
    if abs(exponent) > _MOST_EXPONENT:  # an exact scaling
        points = points * 2.0 ** -max(exponent, -_MOST_FACTOR)
    rows, found = max(_AT_ONCE_ON_DEVICE // count, 1), []
    for start in range(0, count, rows):
        total = torch.zeros((), dtype=points.dtype, device=points.device)
        for x in points.unbind(1):
            total = total + (x - x[start : start + rows, None]).square()
        if not loop:
            total.diagonal(start).fill_(torch.inf)
        last = total.topk(wanted, largest=False).values.amax(1, keepdim=True)
        target, source = (total <= last).nonzero().unbind(1)
        # Equal distances keep the order of their sources.
        order = total[target, source].argsort(stable=True)
        order = order[target[order].argsort(stable=True)]
        first = torch.searchsorted(target, torch.arange(len(total), device=target.device))
        places = first[:, None] + torch.arange(wanted, device=target.device)
        found.append(source[order[places]].flatten())
    each = torch.arange(count, device=points.device)
    return torch.stack([torch.cat(found), each.repeat_interleave(wanted)])


def _nearest_edges(
    points: Doubles, k: int, loop: bool, search: Callable[[Doubles, int], Integers]
) -> Integers:
    """Return the edges of one cloud, (2, edges)."""
    count = len(points)
    wanted = min(k, count if loop else count - 1)
    if wanted <= 0:
        return np.zeros((2, 0), np.int64)
    exponent = int(np.frexp(np.abs(points).max())[1])
    if abs(exponent) > _MOST_EXPONENT:  # an exact scaling
        points = np.ldexp(points, -exponent)
    # The point itself, where it does not count, and one more, to see whether the last is in doubt.
    listed = min(wanted + (1 if loop else 2), count)
    check_size(float(count) * listed, 6, "pairs", "k")
    table = search(points, listed)
    squares = _squares(points[table], points[:, None])
    if not loop:
        squares[table == np.arange(count)[:, None]] = np.inf
    order = np.lexsort((table, squares), axis=-1)
    table = np.take_along_axis(table, order, axis=1)
    squares = np.take_along_axis(squares, order, axis=1)
    nearest = np.ascontiguousarray(table[:, :wanted])
    if listed < count:
        _decide_ties(points, nearest, squares, loop)
    return np.stack([nearest.ravel(), np.arange(count).repeat(wanted)])


def _decide_ties(points: Doubles, nearest: Integers, squares: Doubles, loop: bool) -> None:
    """Search again where unlisted points may be as near as the last listed one."""
    wanted = nearest.shape[1]
    last = squares[:, wanted - 1]
    # The last of all that were listed: the point itself stands behind it, at infinity.
    beyond = np.where(np.isfinite(squares), squares, -1.0).max(axis=1)
    rounding = 8 * (points.shape[1] + 8) * np.finfo(np.float64).eps
    (rows,) = np.nonzero(~(beyond > last * (1 + rounding)))
    if not len(rows):
        return
    tree = plain_tree(points)
    for row in rows.tolist():
        near = tree.query_ball_point(points[row], np.sqrt(last[row]) * (1 + 1e-9))
        candidates = np.array(near, np.int64)
        if not loop:
            candidates = candidates[candidates != row]
        order = np.lexsort((candidates, _squares(points[candidates], points[row])))
        nearest[row] = candidates[order[:wanted]]


def _squares(a: Doubles, b: Doubles) -> Doubles:
    """Return squared distances, (...), summed in a fixed order."""
    difference = a - b
    difference *= difference
    total = difference[..., 0].copy()
    for axis in range(1, difference.shape[-1]):
        total += difference[..., axis]
    return total


def _tree_nearest(points: Doubles, count: int) -> Integers:
    found = plain_tree(points).query(points, np.arange(1, count + 1))[1]
    return np.asarray(found, np.int64)


def _compare_all(points: Doubles, count: int) -> Integers:
    """Return all distances: the reference implementation."""
    rows = max(_AT_ONCE // len(points), 1)
    found = [
        np.argsort(_squares(points, points[start : start + rows, None]), axis=1, kind="stable")
        for start in range(0, len(points), rows)
    ]
    return np.concatenate(found)[:, :count]


_SEARCHES: Final[dict[str, Callable[[Doubles, int], Integers]]] = {
    "scipy": _tree_nearest,
    "torch-cluster": cluster_nearest,
    "brute": _compare_all,
    "cells": _compare_all,
}
