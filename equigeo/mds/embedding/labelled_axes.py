"""Axes of clouds whose points have names."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from equigeo.mds.embedding.cloud_rows import PointClouds
from equigeo.mds.embedding.embed_options import DEFAULT
from equigeo.mds.embedding.signed_axes import Axes, odd_margins

NEGLIGIBLE = 0.05
"""A point says nothing about a direction along which it is less than this part of the spread."""


def labelled_axes(axes: Axes, clouds: PointClouds, group: str, degenerate: Tensor) -> Axes:
    """Turn axes of equal spread, and choose their signs, by the first points that can tell.

    Parameters
    ----------
    axes : Axes
        As found.
    clouds : PointClouds
        The points, in the order of their names.
    group : {"O", "SO"}
        Whether frames may be left-handed; if not, the sign of the last axis follows.
    degenerate : Tensor, (clouds, dim - 1), bool
        Which neighbours have equal spreads.

    Returns
    -------
    Axes
        That no symmetry leaves open.
    """
    dim = axes.spread.shape[-1]
    turns = [
        _turn(axes.y[begin:end], int((~null).sum()), equal.tolist())
        for (begin, end), null, equal in zip(
            pairwise(clouds.ptr.tolist()), axes.null, degenerate, strict=True
        )
    ]
    turn = torch.stack(turns) if turns else axes.frame.new_zeros(0, dim, dim)
    frame = axes.frame @ turn
    if group == "SO":
        last = torch.ones_like(axes.margin)
        last[:, -1] = torch.where(torch.linalg.det(frame) < 0, -1, 1)
        turn, frame = turn * last[:, None, :], frame * last[:, None, :]
    y = (axes.y[:, :, None] * clouds.spread_out(turn)).sum(1)
    turned = replace(axes, y=y, frame=frame)
    return replace(turned, margin=odd_margins(turned, clouds, DEFAULT))


def _turn(y: Tensor, count: int, equal: list[bool]) -> Tensor:
    """Rotation of the axes that are not null, each group of equal ones in itself."""
    blocks, start = [], 0
    while start < count:
        end = start + 1
        while end < count and equal[end - 1]:
            end += 1
        blocks.append(_basis(y[:, start:end]))
        start = end
    return torch.block_diag(*blocks, torch.eye(y.shape[1] - count, dtype=y.dtype, device=y.device))


def _basis(rows: Tensor) -> Tensor:
    """Orthonormal columns, made of the first rows that are independent."""
    least = NEGLIGIBLE * rows.detach().square().mean(0).sum().sqrt()
    columns: list[Tensor] = []
    rest = rows
    for _ in range(rows.shape[1]):
        able = rest.detach().norm(dim=-1) > least
        row = rest[int(able.int().argmax())]
        columns.append(row / row.norm())
        rest = rest - (rest @ columns[-1])[:, None] * columns[-1]
    return torch.stack(columns, -1)
