"""Features of edges in the frames of the edges."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

from equigeo._core.checks import check_dtype, check_features
from equigeo._core.tensors import computes_in_float32, rounded_once
from equigeo.ops.edges.so2_table import LARGEST_SO2_DEGREE


@computes_in_float32
def rotate_edges(
    x: Tensor,  # (edges, (lmax + 1)^2, channels)
    vectors: Tensor,  # (edges, 3); frames of those of length zero are arbitrary
    mmax: int | None = None,  # largest order that is kept, by default lmax
) -> Tensor:  # (edges, components, channels): order 0 by degree, then +m and -m for each order m
    """Rotate edge features into frames with the edge along y and sort components by order."""
    # A frame is fixed up to a roll about the edge, and jumps where an edge crosses the plane y = 0.
    # Results do not depend on it only after functions that commute with rolls: linear maps that
    # treat the components +m and -m as one complex number, products with numbers of order 0, norms
    # of an order. Others are not equivariant, and their gradients by edges are meaningless.
    lmax = _check(x, vectors)
    positions = _positions(lmax, mmax)

    def rotate(x: Tensor, vectors: Tensor) -> Tensor:
        rotations = edge_matrices(vectors, lmax)
        blocks = x.split([2 * l + 1 for l in range(lmax + 1)], dim=1)
        turned = torch.cat([d @ block for d, block in zip(rotations, blocks, strict=True)], dim=1)
        return turned[:, positions]

    return rounded_once(rotate, [x, vectors])


@computes_in_float32
def rotate_edges_back(z: Tensor, vectors: Tensor, lmax: int, mmax: int | None = None) -> Tensor:
    """Rotate features back from the edge frames: the transpose of :func:`rotate_edges`."""
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

    return rounded_once(rotate, [z, vectors])


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


def edge_matrices(vectors: Tensor, lmax: int) -> list[Tensor]:
    """Return the Wigner matrices of the edge frames; arbitrary frames for zero edges."""
    pole = vectors.new_tensor([0.0, 1.0, 0.0])
    return wigner_matrices(edge_frames(torch.where(has_direction(vectors), vectors, pole)), lmax)


def has_direction(
    vectors: Tensor,  # (edges, 3)
) -> Tensor:  # (edges, 1), bool
    """Return a mask of the nonzero edges; zero edges have no frame and send no message."""
    # Non-finite vectors count as nonzero, so that their results are NaN.
    return (vectors.detach() != 0).any(dim=-1, keepdim=True)


def edge_frames(
    vectors: Tensor,  # (..., 3)
) -> Tensor:  # (..., 3, 3)
    """Return rotations of each vector onto the y axis; not finite for zero vectors."""
    scaled = vectors / largest_component(vectors)
    x, y, z = (scaled / torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)).unbind(-1)
    # With k = 1 / (1 + |u_y|), the shortest rotation of u onto the y axis; below the equator, onto
    # -y followed by a half turn about x. Rational in u without poles; it jumps on the equator by a
    # roll.
    upper = y >= 0
    k = 1 / (1 + torch.where(upper, y, -y))
    sign = torch.where(upper, 1, -1).to(y.dtype)
    across = -k * x * z
    first = torch.stack([1 - k * x * x, -sign * x, across], dim=-1)
    third = torch.stack([sign * across, -z, sign * (1 - k * z * z)], dim=-1)
    return torch.stack([first, torch.stack([x, y, z], dim=-1), third], dim=-2)


def largest_component(vectors: Tensor) -> Tensor:
    """Return the divisor that keeps squares of very long or short vectors in range, (..., 1)."""
    return vectors.detach().abs().amax(dim=-1, keepdim=True)


def wigner_matrices(
    rotation: Tensor,  # (..., 3, 3)
    lmax: int,
) -> list[Tensor]:  # (..., 2 l + 1, 2 l + 1) per degree
    """Return the Wigner matrices of degrees 0 to lmax of a rotation, in the e3nn basis."""
    found = [torch.ones_like(rotation[..., :1, :1]), rotation]
    # Ivanic and Ruedenberg, "Rotation matrices for real spherical harmonics", 1996, with the
    # correction of 1998: polynomials in the entries of the rotation, accurate and differentiable
    # everywhere.
    for l in range(2, lmax + 1):
        found.append(_next_degree(rotation, found[-1], l))
    return found[: lmax + 1]


def _next_degree(rotation: Tensor, below: Tensor, l: int) -> Tensor:
    left, middle, right = rotation[..., None].unbind(-2)  # (..., 3, 1) of columns -1, 0, 1
    low, high = below[..., None, :, 0], below[..., None, :, -1]
    first = right * low + left * high
    last = right * high - left * low
    inner = middle[..., None] * below[..., None, :, :]
    products = torch.cat([first[..., None], inner, last[..., None]], dim=-1).flatten(-3, -2)
    rows, columns = (products.new_tensor(factors) for factors in recurrence_factors(l))
    return (rows @ products) * columns


@cache
def recurrence_factors(l: int) -> tuple[list[list[float]], list[float]]:
    """Return row numerators and column factors of the recurrence as cached lists; do not modify."""
    # rows[l + m][(1 + i) (2 l - 1) + l - 1 + n] is the factor of row n of the products with row i
    # of the rotation in row m of the result. Traced programs do not accept cached tensors.
    rows = [[0.0] * (3 * (2 * l - 1)) for _ in range(2 * l + 1)]

    def add(m: int, i: int, n: int, factor: float) -> None:
        if factor:
            rows[l + m][(1 + i) * (2 * l - 1) + l - 1 + n] += factor

    for m in range(-l, l + 1):
        k = abs(m)
        add(m, 0, m, math.sqrt((l + m) * (l - m)))
        v = 0.5 * math.sqrt((2 if m == 0 else 1) * (l + k - 1) * (l + k)) * (-1 if m == 0 else 1)
        w = -0.5 * math.sqrt((l - k - 1) * (l - k)) if 0 < k < l else 0.0
        if m == 0:
            add(0, 1, 1, v)
            add(0, -1, -1, v)
        elif m > 0:
            add(m, 1, m - 1, v * (math.sqrt(2) if m == 1 else 1))
            add(m, -1, 1 - m, 0.0 if m == 1 else -v)
            add(m, 1, m + 1, w)
            add(m, -1, -m - 1, w)
        else:
            add(m, 1, m + 1, 0.0 if m == -1 else v)
            add(m, -1, -m - 1, v * (math.sqrt(2) if m == -1 else 1))
            add(m, 1, m - 1, w)
            add(m, -1, 1 - m, -w)
    columns = [1 / math.sqrt((l + m) * (l - m)) for m in range(1 - l, l)]
    edge = 1 / math.sqrt(2 * l * (2 * l - 1))
    return rows, [edge, *columns, edge]
