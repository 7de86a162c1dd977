"""Reference implementations of products of rows, path by path, by Einstein sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equigeo.ops.path_table import Path, Segment, read_paths


@dataclass(frozen=True)
class Letters:
    """Einstein-sum axes of a path: rows e, channels u, v and w, components i, j and k."""

    x: str
    y: str
    out: str
    weight: str


MATCHED = Letters("eui", "euj", "euk", "eu")
CHANNELWISE = Letters("eui", "evj", "euk", "euv")
PAIRS = Letters("eui", "evj", "euvk", "euv")
MIXED = Letters("eui", "evj", "ewk", "euvw")

Connection = Callable[[Path], Letters]


def channelwise(path: Path) -> Letters:
    """Connect every channel of the first input with all of the second: ``uvu``."""
    return CHANNELWISE


def copywise(path: Path) -> Letters:
    """Connect copies one by one, ``uuu``, or each with all of the other input, ``uvuv``."""
    return PAIRS if path.out.mul == path.x.mul * path.y.mul else MATCHED


def fully_connected(path: Path) -> Letters:
    """Connect each channel with all of the other input and mix them: ``uvw``."""
    return MIXED


def connected_product(
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    table: Mapping[str, Tensor],  # paths, entries and values
    dim_out: int,
    connection: Connection,  # returns the axis letters of a path
) -> Tensor:  # (rows, dim_out)
    """Sum the products of all paths in the dtype of the coefficients."""
    dtype = x.dtype
    x, y, weight = _computed(table, x, y, weight)
    # z_k += w sum_ij C_ijk x_i y_j for the channels that the connection joins.
    out = x.new_zeros(x.shape[0], dim_out)
    for path in read_paths(**table):
        form = connection(path)
        w = weights_of(weight, path, form, x)
        operands = [read_segment(x, path.x), read_segment(y, path.y), path.coefficients, w]
        z = torch.einsum(f"{form.x},{form.y},ijk,{form.weight}->{form.out}", *operands)
        out = add_to_segment(out, path.out, z)
    return out.to(dtype)


def connected_product_backward(
    grad: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    table: Mapping[str, Tensor],
    connection: Connection,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of :func:`connected_product`; that of missing weights is empty."""
    dtype = x.dtype
    grad, x, y, weight = _computed(table, grad, x, y, weight)
    # F = sum_k g_k z_k is linear in g, x, y and w: derivatives replace one operand of the sum.
    to_x, to_y = torch.zeros_like(x), torch.zeros_like(y)
    to_weight = x.new_zeros(0, 0) if weight is None else torch.zeros_like(weight)
    for path in read_paths(**table):
        form = connection(path)
        w, c = weights_of(weight, path, form, x), path.coefficients
        g = read_segment(grad, path.out).unflatten(1, _sizes(path, form.out[1:-1]))
        xs, ys = read_segment(x, path.x), read_segment(y, path.y)
        to_xs = torch.einsum(f"{form.out},{form.y},ijk,{form.weight}->{form.x}", g, ys, c, w)
        to_ys = torch.einsum(f"{form.out},{form.x},ijk,{form.weight}->{form.y}", g, xs, c, w)
        to_x, to_y = add_to_segment(to_x, path.x, to_xs), add_to_segment(to_y, path.y, to_ys)
        if weight is not None and path.weight is not None:
            to_w = torch.einsum(f"{form.out},{form.x},ijk,{form.y}->{form.weight}", g, xs, c, ys)
            to_weight = add_to_segment(to_weight, weight_segment(path, form), to_w)
    return to_x.to(dtype), to_y.to(dtype), to_weight.to(dtype)


def _computed(table: Mapping[str, Tensor], *operands: Any) -> tuple[Any, ...]:
    dtype = table["values"].dtype
    return tuple(None if x is None else x.to(dtype) for x in operands)


def read_segment(row: Tensor, segment: Segment) -> Tensor:
    """Return a segment of every row, (rows, mul, d)."""
    return row[:, segment.index().to(row.device)]


def add_to_segment(row: Tensor, segment: Segment, values: Tensor) -> Tensor:
    """Add values to a segment of every row."""
    return row.index_add(1, segment.index().flatten().to(row.device), values.flatten(1))


def _sizes(path: Path, letters: str) -> tuple[int, ...]:
    sizes = {"u": path.x.mul, "v": path.y.mul, "w": path.out.mul}
    return tuple(sizes[letter] for letter in letters)


def weight_segment(path: Path, form: Letters) -> Segment:
    """Return the segment of the weights of a path."""
    shape = torch.Size(_sizes(path, form.weight[1:]))
    return Segment.block(path.weight or 0, shape.numel(), 1)


def weights_of(row: Tensor | None, path: Path, form: Letters, like: Tensor) -> Tensor:
    """Return the weights of a path per row, or ones if the path has none."""
    shape = _sizes(path, form.weight[1:])
    if row is None or path.weight is None:
        return like.new_ones(like.shape[0], *shape)
    return read_segment(row, weight_segment(path, form)).view(-1, *shape)
