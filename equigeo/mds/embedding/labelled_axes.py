"""Axes of clouds with labelled points."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from equigeo.mds.embedding.align import odd_margins
from equigeo.mds.embedding.aligned_clouds import AlignedClouds
from equigeo.mds.embedding.embed_options import EmbedOptions

NEGLIGIBLE = 0.05
"""Coordinates below this part of the spread do not determine a direction."""


def labelled_axes(
    aligned: AlignedClouds,  # points in the order of their labels
    options: EmbedOptions,  # choice of the statistic of the margins
) -> AlignedClouds:
    """Rotate axes of equal spread and choose signs by the first points that determine them."""
    clouds, dim = aligned.clouds, aligned.dim
    here = torch.ones_like(aligned.y[:, 0], dtype=torch.bool)
    if clouds.weight is not None:
        here = clouds.weight != 0
    turns = [
        _turn(aligned.y[begin:end][here[begin:end]], int((~null).sum()), equal.tolist())
        for (begin, end), null, equal in zip(
            pairwise(clouds.ptr.tolist()), aligned.null, aligned.degenerate, strict=True
        )
    ]
    turn = torch.stack(turns) if turns else aligned.frame.new_zeros(0, dim, dim)
    frame = aligned.frame @ turn
    if aligned.group == "SO":
        last = torch.ones_like(aligned.margin)
        last[:, -1] = torch.where(torch.linalg.det(frame) < 0, -1, 1)
        turn, frame = turn * last[:, None, :], frame * last[:, None, :]
    y = aligned.seen_in(turn)
    # Labelled points leave no symmetry, so there are no flags.
    return replace(
        aligned,
        y=y,
        frame=frame,
        margin=odd_margins(y, aligned.spread, clouds, options),
        ambiguous=torch.zeros_like(aligned.ambiguous),
        degenerate=torch.zeros_like(aligned.degenerate),
    )


def _turn(y: Tensor, count: int, equal: list[bool]) -> Tensor:
    """Return the rotation of the nonnull axes, within each group of equal ones."""
    blocks, start = [], 0
    while start < count:
        end = start + 1
        while end < count and equal[end - 1]:
            end += 1
        blocks.append(_basis(y[:, start:end]))
        start = end
    return torch.block_diag(*blocks, torch.eye(y.shape[1] - count, dtype=y.dtype, device=y.device))


def _basis(rows: Tensor) -> Tensor:
    """Return orthonormal columns from the first independent rows."""
    least = NEGLIGIBLE * rows.detach().square().mean(0).sum().sqrt()
    columns: list[Tensor] = []
    rest = rows
    for _ in range(rows.shape[1]):
        able = rest.detach().norm(dim=-1) > least
        row = rest[int(able.int().argmax())]
        columns.append(row / row.norm())
        rest = rest - (rest @ columns[-1])[:, None] * columns[-1]
    return torch.stack(columns, -1)
