"""Features of edges in the frames of the edges."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from equigeo.ops.edges.edge_frames import edge_matrices
from equigeo.ops.edges.so2_table import LARGEST_SO2_DEGREE
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.ops.runtime.checks import check_dtype, check_features
from equigeo.ops.runtime.storage import rounded_once


@computes_in_float32
def rotate_edges(x: Tensor, vectors: Tensor, mmax: int | None = None) -> Tensor:
    """Rotate edge features into frames with the edge along y and sort components by order.

    A frame is fixed up to a roll about the edge, and jumps where an edge crosses the plane y = 0.
    Results do not depend on it only after functions that commute with rolls: linear maps that
    treat the components +m and -m as one complex number, products with numbers of order 0, norms of
    an order. Others are not equivariant, and their gradients by edges are meaningless. Returns
    (edges, components, channels): degrees 0 to lmax of order 0, then for each order m those of +m
    and those of -m.

    Parameters
    ----------
    x : Tensor, (edges, (lmax + 1)^2, channels)
        Features of degrees 0 to lmax.
    vectors : Tensor, (edges, 3), dtype of ``x``
        Edges, of any length; frames of those of length zero are arbitrary.
    mmax : int, optional
        Largest order that is kept, by default lmax.

    Examples
    --------
    >>> x = torch.tensor([[[1.0], [3.0], [0.0], [4.0]]])  # a scalar and a vector
    >>> rotate_edges(x, torch.tensor([[3.0, 0.0, 4.0]]), mmax=0).flatten()
    tensor([1., 5.])
    """
    lmax = _check(x, vectors)
    positions = _positions(lmax, mmax)

    def rotate(x: Tensor, vectors: Tensor) -> Tensor:
        rotations = edge_matrices(vectors, lmax)
        blocks = x.split([2 * l + 1 for l in range(lmax + 1)], dim=1)
        turned = torch.cat([d @ block for d, block in zip(rotations, blocks, strict=True)], dim=1)
        return turned[:, positions]

    return cast(Tensor, rounded_once(rotate, [x, vectors]))


@computes_in_float32
def rotate_edges_back(z: Tensor, vectors: Tensor, lmax: int, mmax: int | None = None) -> Tensor:
    """Rotate features back from the edge frames: the transpose of :func:`rotate_edges`.

    Returns (edges, (lmax + 1)^2, channels).

    Examples
    --------
    >>> z = torch.tensor([[[1.0], [5.0]]])
    >>> rotate_edges_back(z, torch.tensor([[3.0, 0.0, 4.0]]), lmax=1, mmax=0).flatten()
    tensor([1., 3., 0., 4.])
    """
    _check_edges("z", z, vectors)
    positions = _positions(lmax, mmax)
    if z.shape[1] != len(positions):
        raise ValueError(
            f"z must have {len(positions)} components for lmax {lmax} and mmax {mmax}, "
            f"got {z.shape[1]}"
        )
    index = torch.tensor(positions, device=z.device)

    def rotate(z: Tensor, vectors: Tensor) -> Tensor:
        rotations = edge_matrices(vectors, lmax)
        full = z.new_zeros(z.shape[0], (lmax + 1) ** 2, z.shape[2]).index_copy(1, index, z)
        blocks = full.split([2 * l + 1 for l in range(lmax + 1)], dim=1)
        return torch.cat([d.mT @ block for d, block in zip(rotations, blocks, strict=True)], dim=1)

    return cast(Tensor, rounded_once(rotate, [z, vectors]))


def _positions(lmax: int, mmax: int | None) -> list[int]:
    """Return the positions of the kept components by degree, sorted by order."""
    if not 0 <= lmax <= LARGEST_SO2_DEGREE:
        raise ValueError(f"lmax must be from 0 to {LARGEST_SO2_DEGREE}, got {lmax}")
    if mmax is not None and mmax < 0:
        raise ValueError(f"mmax must not be negative, got {mmax}")
    top = lmax if mmax is None else min(lmax, mmax)
    found = [l * l + l for l in range(lmax + 1)]
    for m in range(1, top + 1):
        found += [l * l + l + sign * m for sign in (1, -1) for l in range(m, lmax + 1)]
    return found


def _check(x: Tensor, vectors: Tensor) -> int:
    _check_edges("x", x, vectors)
    lmax = 0
    while (lmax + 1) ** 2 < x.shape[1]:
        lmax += 1
    if (lmax + 1) ** 2 != x.shape[1]:
        raise ValueError(f"x must have (lmax + 1)^2 components, got {x.shape[1]}")
    return lmax


def _check_edges(name: str, x: Tensor, vectors: Tensor) -> None:
    if x.ndim != 3:
        raise ValueError(f"{name} must be (edges, components, channels), got {tuple(x.shape)}")
    if tuple(vectors.shape) != (x.shape[0], 3):
        raise ValueError(f"vectors must be ({x.shape[0]}, 3), got {tuple(vectors.shape)}")
    check_features(name, x, ("edges", "components", "channels"))
    check_dtype("vectors", vectors, name, x)
