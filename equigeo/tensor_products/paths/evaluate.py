"""The steps of a product by paths around its couplings, in either layout."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from equigeo.nn.index_tables import IndexTables
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout
from equigeo.tensor_products.paths.couple import channel_axis, component_axis, mix_channels
from equigeo.tensor_products.paths.path_groups import PathGroup, PathOutput


def upper_triangles(groups: Sequence[PathGroup]) -> IndexTables:
    """Return a mask of channel pairs with u < v for each multiplicity that needs one."""
    muls = {group.muls[0] for group in groups for path in group.paths if path.upper}
    rows = {mul: torch.triu_indices(mul, mul, offset=1, device="cpu") for mul in muls}
    return IndexTables(**{f"mul{mul}": u * mul + v for mul, (u, v) in rows.items()})


def split_terms(x: Tensor, irreps: Irreps) -> list[Tensor]:
    """View each term as (..., mul, 2 l + 1), or (..., 2 l + 1, mul), by its layout."""
    shapes = [(mul, 2 * l + 1) for mul, (l, _) in irreps.terms]
    pieces = x.split([mul * dim for mul, dim in shapes], dim=-1)
    if irreps.layout == "ir_mul":
        shapes = [(dim, mul) for mul, dim in shapes]
    return [piece.unflatten(-1, shape) for piece, shape in zip(pieces, shapes, strict=True)]


def prepare_inputs(
    group: PathGroup, x: Tensor, y: Tensor, weight: Tensor | None, layout: Layout
) -> tuple[Tensor, Tensor]:
    """Sum over channels before the coupling if possible."""
    axis = channel_axis(layout)
    # The coupling is linear in each input, so that channels may be summed before it.
    if group.before == "sum x":
        return x.sum(axis, keepdim=True), y
    if group.before == "sum y":
        return x, y.sum(axis, keepdim=True)
    if weight is None or not group.before:
        return x, y
    # uvv: sum_u w_uv x_u is an input with the channels of y; uvu likewise, w transposed.
    w = _block(weight, group.paths[0].weight).unflatten(-1, group.muls)
    if group.before == "mix x":
        return mix_channels(x, w, layout), y
    return x, mix_channels(y, w.mT, layout)


def finish_path(
    path: PathOutput, z: Tensor, weight: Tensor | None, upper: Tensor | None, layout: Layout
) -> Tensor:
    """Apply weights to the channels of a coupling, or sum the channels."""
    axis = channel_axis(layout)
    # uvu<v and u<vw keep pairs of channels u < v, rows of the upper triangle.
    if upper is not None:
        z = z.index_select(axis, upper)
    if path.after == "sum":
        return z.sum(axis, keepdim=True)
    if weight is None or not path.after:
        return z
    w = _block(weight, path.weight)
    if path.after == "scale":
        return z * w.unsqueeze(component_axis(layout))
    # uvw, uuw and u<vw: all channels that were coupled mix into those of the output.
    return mix_channels(z, w.unflatten(-1, (-1, path.mul_out)), layout)


def join_terms(
    slots: Sequence[Sequence[Tensor]], irreps_out: Irreps, batch: torch.Size, like: Tensor
) -> Tensor:
    """Sum the paths into each term, zero without paths, and concatenate the terms."""
    terms = [like.new_zeros(*batch, 0)]
    for (mul, (l, _)), paths in zip(irreps_out.terms, slots, strict=True):
        dim = mul * (2 * l + 1)
        if not paths:
            terms.append(like.new_zeros(*batch, dim))
            continue
        total = paths[0]
        for z in paths[1:]:
            total = total + z
        terms.append(total.flatten(-2).expand(*batch, dim))
    return torch.cat(terms, dim=-1)


def _block(weight: Tensor, position: tuple[int, int]) -> Tensor:
    return weight.narrow(-1, *position)
