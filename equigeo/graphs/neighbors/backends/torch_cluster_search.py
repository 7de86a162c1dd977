"""Neighbours by torch-cluster, for systems without periodic axes."""

from __future__ import annotations

from importlib import import_module

import torch

from equigeo.graphs.neighbors.point_system import Candidates, Doubles, Integers
from equigeo.graphs.neighbors.search_box import SearchBox


def cluster_radius(box: SearchBox) -> Candidates:
    """Return pairs within the cutoff of a box without periodic axes, unsorted."""
    x = torch.from_numpy(box.points)
    # The default limit silently drops neighbours beyond 32.
    pairs = import_module("torch_cluster").radius(x, x, box.cutoff, max_num_neighbors=len(x))
    return Candidates(pairs.flip(0).numpy(), None)


def cluster_nearest(
    points: Doubles,  # (points, dim)
    count: int,
) -> Integers:
    """Return the nearest points of each point, itself included, (points, count), unsorted."""
    x = torch.from_numpy(points)
    target, source = import_module("torch_cluster").knn(x, x, count)
    if len(source) != len(x) * count or not bool((target.diff() >= 0).all()):
        raise RuntimeError(f"torch-cluster did not list {count} neighbours of every point")
    return source.view(len(x), count).numpy()
