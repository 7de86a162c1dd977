"""Neighbours by torch-cluster, which searches trees of points in a space that does not repeat."""

from __future__ import annotations

from importlib import import_module

import torch

from equigeo.graphs.neighbors.point_system import Candidates, Doubles, Integers
from equigeo.graphs.neighbors.search_box import SearchBox


def cluster_radius(box: SearchBox) -> Candidates:
    """List pairs within the cut-off of a box without periodic axes.

    Parameters
    ----------
    box : SearchBox
        Points.

    Returns
    -------
    Candidates
        In no particular order.
    """
    x = torch.from_numpy(box.points)
    # As many as there are points: the default would drop those beyond 32, and not say so.
    pairs = import_module("torch_cluster").radius(x, x, box.cutoff, max_num_neighbors=len(x))
    return Candidates(pairs.flip(0).numpy(), None)


def cluster_nearest(points: Doubles, count: int) -> Integers:
    """List the nearest of points, each among its own.

    Parameters
    ----------
    points : ndarray, (points, dim), float64
        Points of one cloud.
    count : int
        How many; at most as many as there are points.

    Returns
    -------
    ndarray, (points, count), int64
        In no particular order.

    Raises
    ------
    RuntimeError
        If fewer were listed.
    """
    x = torch.from_numpy(points)
    target, source = import_module("torch_cluster").knn(x, x, count)
    if len(source) != len(x) * count or not bool((target.diff() >= 0).all()):
        raise RuntimeError(f"torch-cluster did not list {count} neighbours of every point")
    return source.view(len(x), count).numpy()
