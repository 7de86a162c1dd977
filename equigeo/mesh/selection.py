"""Which adjacencies to contract: the best ones of each mesh, whatever the order of the faces."""

from __future__ import annotations

import torch
from torch import Tensor


def select_top(scores: Tensor, batch: Tensor, quota: Tensor, *, gap: float = 1e-6) -> Tensor:
    """Mark the highest scores of each mesh, without ever splitting a group of equals.

    Scores that follow each other at less than ``gap`` are tied. If the quota would cut through a
    tied group, the whole group stays uncontracted, so that neither the numbering of faces nor
    rounding decides.

    Parameters
    ----------
    scores : Tensor, (edges,), floating
        Higher is contracted first.
    batch : Tensor, (edges,), int64
        Mesh of each edge, ascending.
    quota : Tensor, (meshes,), int64
        How many edges of each mesh may be marked.
    gap : float
        Smallest difference between distinct scores.

    Returns
    -------
    Tensor, (edges,), bool
        At most ``quota`` marks per mesh.

    Equivariance
    ------------
    Permuting the edges of a mesh permutes the marks.

    Examples
    --------
    >>> scores = torch.tensor([0.9, 0.5, 0.5, 0.1])
    >>> select_top(scores, torch.zeros(4, dtype=torch.int64), torch.tensor([2])).tolist()
    [True, False, False, False]
    """
    if not len(scores):
        return torch.zeros(0, dtype=torch.bool, device=scores.device)
    scores = scores.detach().double()
    order = torch.argsort(scores, descending=True, stable=True)
    order = order[torch.argsort(batch[order], stable=True)]
    ordered, mesh = scores[order], batch[order]
    rank = _rank(mesh, len(quota))
    closes_group = torch.ones(len(order), dtype=torch.bool, device=scores.device)
    closes_group[:-1] = (mesh[1:] != mesh[:-1]) | (ordered[:-1] - ordered[1:] > gap)
    taken = torch.where(closes_group & (rank < quota[mesh]), rank + 1, 0)
    cut = torch.zeros_like(quota).scatter_reduce(0, mesh, taken, "amax")
    marked = torch.empty_like(closes_group)
    marked[order] = rank < cut[mesh]
    return marked


def _rank(mesh: Tensor, num_meshes: int) -> Tensor:
    """Position of each entry of an ascending vector within its run."""
    counts = torch.bincount(mesh, minlength=num_meshes)
    start = torch.cumsum(counts, 0) - counts
    return torch.arange(len(mesh), device=mesh.device) - start[mesh]
