"""Selection of adjacencies to contract, independent of the order of faces."""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor


def select_top(
    scores: Tensor,  # (edges,)
    batch: Tensor,  # (edges,) mesh of each edge, ascending
    quota: Tensor,  # (meshes,)
    *,
    window: float = 1e-5,  # range of scores above the quota in which the cut may lie
) -> Tensor:
    """Mark at most ``quota`` highest scores per mesh without splitting groups of equal scores."""
    if not len(scores):
        return torch.zeros(0, dtype=torch.bool, device=scores.device)
    scores = scores.detach().double()
    order = _descending(scores)
    if len(quota) > 1:
        order = order[torch.argsort(batch[order], stable=True)]
    ordered, mesh = scores[order], batch[order]
    rank = _rank(mesh, len(quota))
    # The cut moves up to the widest gap between neighbouring scores in the window, so that neither
    # face numbering nor rounding errors decide about ties.
    gap = torch.full_like(ordered, torch.inf)  # above each score; nothing is above the first
    gap[1:] = torch.where(mesh[1:] == mesh[:-1], ordered[:-1] - ordered[1:], torch.inf)
    beyond = rank == quota[mesh]
    anchor = torch.full_like(quota, torch.inf, dtype=ordered.dtype)
    anchor[mesh[beyond]] = ordered[beyond]
    # Candidates for the cut lie between the quota and the window above the first score beyond it.
    near = (rank <= quota[mesh]) & (ordered - anchor[mesh] <= window)
    widest = torch.zeros_like(anchor).scatter_reduce(0, mesh[near], gap[near], "amax")
    here = near & (gap == widest[mesh])
    cut = torch.zeros_like(quota).scatter_reduce(0, mesh[here], rank[here], "amax")
    cut = torch.where(anchor.isinf(), quota, cut)  # a quota that takes all scores cuts nowhere
    marked = torch.empty(len(order), dtype=torch.bool, device=scores.device)
    marked[order] = rank < cut[mesh]
    return marked


def _descending(scores: Tensor) -> Tensor:
    """Return the stable descending order of float64 scores; sorting integers is 3x faster."""
    # The bits of a float, read as an integer, rise with it; those of a negative one fall. Adding
    # zero makes -0 equal to 0, and NaN comes first, as PyTorch has it.
    bits = (scores + 0.0).view(torch.int64)
    keys = bits ^ ((bits >> 63) & torch.iinfo(torch.int64).max)
    keys = torch.where(scores.isnan(), torch.iinfo(torch.int64).max, keys)
    return torch.argsort(keys.bitwise_not_(), stable=True)


def _rank(mesh: Tensor, num_meshes: int) -> Tensor:
    """Return the position of each entry of an ascending vector within its run."""
    counts = torch.bincount(mesh, minlength=num_meshes)
    start = torch.cumsum(counts, 0) - counts
    return torch.arange(len(mesh), device=mesh.device) - start[mesh]


def dominant_matching(
    undirected: Tensor,  # (edges, 2)
    scores: Tensor,  # (edges,), higher first
    num_nodes: int,
) -> Tensor:
    """Mark edges without common ends greedily by score; equal neighbours block each other."""
    # Rounds decide all edges at once: Preis, "Linear time 1/2-approximation algorithm for maximum
    # weighted matching", 1999. Slow cases, such as a path of rising scores, continue on the host.
    scores = scores.detach().double()
    marked = torch.zeros(len(scores), dtype=torch.bool, device=scores.device)
    free = torch.ones(num_nodes, dtype=torch.bool, device=scores.device)
    alive = torch.arange(len(scores), device=scores.device)
    while len(alive):
        ends = undirected[alive]
        accepted = _outranks(ends, scores[alive], num_nodes)
        marked[alive[accepted]] = True
        free[ends[accepted]] = False
        left = alive[free[ends].all(dim=1)]
        if len(left) > _SHARE_LEFT * len(alive):
            marked[left] = _walk(undirected[left], scores[left], num_nodes)
            break
        alive = left
    return marked


def _outranks(ends: Tensor, scores: Tensor, num_nodes: int) -> Tensor:
    """Mark the edges with the strictly highest score at both ends."""
    best = scores.new_full((num_nodes,), -torch.inf)
    best = best.scatter_reduce(0, ends.reshape(-1), scores.repeat_interleave(2), "amax")
    is_best = scores[:, None] >= best[ends]
    rivals = torch.bincount(ends[is_best], minlength=num_nodes)
    return (is_best & (rivals[ends] == 1)).all(dim=1)


def _walk(ends: Tensor, scores: Tensor, num_nodes: int) -> Tensor:
    """Decide edges one by one in descending order of scores, (edges,) bool."""
    # Of equal neighbours none is accepted, and both live on and outrank what is below them for
    # good: what could use up their ends is below them as well. So their ends are blocked.
    order = _descending(scores)
    sizes = torch.unique_consecutive(scores[order], return_counts=True)[1].tolist()
    pairs = ends[order].tolist()
    state = bytearray(num_nodes)
    for end in ends[scores.isnan()].reshape(-1).tolist():
        state[end] = _BLOCKED
    accepted: list[int] = []
    start = 0
    for size in sizes:
        group = range(start, start + size)
        start += size
        alive = [k for k in group if _USED not in (state[pairs[k][0]], state[pairs[k][1]])]
        met = Counter(end for k in alive for end in pairs[k]) if len(alive) > 1 else None
        chosen = [k for k in alive if _is_open(pairs[k], state, met)]
        for k in alive:
            for end in pairs[k]:
                state[end] = _BLOCKED
        for k in chosen:
            state[pairs[k][0]] = state[pairs[k][1]] = _USED
        accepted += chosen
    marked = torch.zeros(len(order), dtype=torch.bool)
    marked[order.cpu()[accepted]] = True
    return marked.to(ends.device)


def _is_open(pair: list[int], state: bytearray, met: Counter[int] | None) -> bool:
    """Return whether no higher edge blocks an end and no equal edge shares it."""
    return not any(state[end] or (met is not None and met[end] > 1) for end in pair)


_BLOCKED, _USED = 1, 2  # an end with an edge that is never decided, and one of an accepted edge
# Random scores leave a third of the edges to the next round, scores that rise along a path nearly
# all. With this share a million edges take at most 48 rounds.
_SHARE_LEFT = 0.75
