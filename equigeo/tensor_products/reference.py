"""Evaluation of products by paths in PyTorch, in either layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from equigeo.nn.tables import IndexTables
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout
from equigeo.tensor_products.instructions import Instruction, Operands, terms_of
from equigeo.tensor_products.path_tables import coefficients, weight_starts

# Every connection couples all pairs of channels or matched channels, then applies weights along the
# channel axis; uvu and uvv mix the channels that they sum over beforehand.
# connection      before the coupling   channels             after it, with / without weights
# uvw             -                     all pairs            mix / -
# uvu (v > 1)     mix y / sum y         matched / all pairs  -
# uvv (u > 1)     mix x / sum x         matched / all pairs  -
# uuw             -                     matched              mix / sum
# uuu             -                     matched              scale / -
# uvuv            -                     all pairs            scale / -
# uvu<v           -                     all pairs, u < v     scale / -
# u<vw            -                     all pairs, u < v     mix / -
# uvu with v = 1 and uvv with u = 1 are evaluated as uvuv.
Before = Literal["", "sum x", "sum y", "mix x", "mix y"]
After = Literal["", "sum", "scale", "mix"]


@dataclass(frozen=True)
class PathOutput:
    """Slice and weights of one instruction in a joint coupling."""

    i_out: int
    mul_out: int
    dim: int  # components
    upper: bool  # of all pairs of channels, u < v only
    after: After
    weight: tuple[int, int]  # offset in the flat weights and length


@dataclass(frozen=True)
class PathGroup:
    """Paths from one pair of terms that share one coupling."""

    # A group that mixes before the coupling has a single path and uses its weights.
    i_in1: int
    i_in2: int
    muls: tuple[int, int]
    before: Before
    matched: bool
    paths: tuple[PathOutput, ...]
    shape: torch.Size  # of the table: components of x, of y, and of all paths

    @property
    def dims(self) -> list[int]:
        """Return the number of components of each path."""
        return [path.dim for path in self.paths]

    @property
    def coupled(self) -> tuple[int, int]:
        """Return the channels of both inputs at the coupling."""
        u, v = self.muls
        reduced = {"sum x": (1, v), "sum y": (u, 1), "mix x": (v, v), "mix y": (u, u)}
        return reduced.get(self.before, (u, v))

    def multiply_adds(self) -> int:
        """Return multiply-accumulate operations per sample."""
        u, v = self.coupled
        dim1, dim2, dim3 = self.shape
        # Matched channels multiply the whole table; pairs use the cheapest order.
        coupling = u * dim1 * dim2 * dim3 if self.matched else pairs_order(u, v, self.shape)[1]
        mixed = {"mix x": dim1, "mix y": dim2}.get(self.before, 0)
        before = self.muls[0] * self.muls[1] * mixed
        after = sum(path.weight[1] * path.dim for path in self.paths if path.after == "mix")
        return before + coupling + after


def group_paths(
    instructions: Sequence[Instruction], operands: Operands
) -> tuple[list[PathGroup], list[Tensor]]:
    """Group instructions with channels by their coupling, and return the tables of the groups."""
    starts = weight_starts(instructions)
    shared: dict[tuple[object, ...], list[int]] = {}
    for n, path in enumerate(instructions):
        if 0 not in path.path_shape:
            before, matched = _coupling(path, operands)
            # Weights before the coupling compute an input for this path alone; it is not shared.
            alone = n if before.startswith("mix") else None
            key = (path.i_in1, path.i_in2, before, matched, alone)
            shared.setdefault(key, []).append(n)
    groups, tables = [], []
    for numbers in shared.values():
        members = [instructions[n] for n in numbers]
        places = [(starts[n], starts[n + 1] - starts[n]) for n in numbers]
        paths = [_path(path, operands, at) for path, at in zip(members, places, strict=True)]
        # Scaled couplings, one after another along the output components.
        table = torch.cat([coefficients(path, operands) for path in members], dim=-1)
        (u, _), (v, _), _ = terms_of(members[0], operands)
        i_in1, i_in2 = members[0].i_in1, members[0].i_in2
        before, matched = _coupling(members[0], operands)
        groups.append(PathGroup(i_in1, i_in2, (u, v), before, matched, tuple(paths), table.shape))
        tables.append(table)
    return groups, tables


def _coupling(path: Instruction, operands: Operands) -> tuple[Before, bool]:
    """Return how the inputs are prepared, and whether their channels are matched."""
    (u, _), (v, _), _ = terms_of(path, operands)
    if path.connection == "uvu" and v > 1:
        return ("mix y", True) if path.has_weight else ("sum y", False)
    if path.connection == "uvv" and u > 1:
        return ("mix x", True) if path.has_weight else ("sum x", False)
    return "", path.connection in ("uuu", "uuw")


def _path(path: Instruction, operands: Operands, weight: tuple[int, int]) -> PathOutput:
    *_, (mul_out, (l, _)) = terms_of(path, operands)
    # Where channels were mixed before, the weights are used up.
    after: After = ""
    if path.connection in ("uvw", "uuw", "u<vw"):
        after = "mix" if path.has_weight else "sum"
    elif path.has_weight and not _coupling(path, operands)[0]:
        after = "scale"
    upper = path.connection in ("uvu<v", "u<vw")
    return PathOutput(path.i_out, mul_out, 2 * l + 1, upper, after, weight)


def upper_triangles(groups: Sequence[PathGroup]) -> IndexTables:
    """Return a mask of channel pairs with u < v for each multiplicity that needs one."""
    muls = {group.muls[0] for group in groups for path in group.paths if path.upper}
    rows = {mul: torch.triu_indices(mul, mul, offset=1, device="cpu") for mul in muls}
    return IndexTables(**{f"mul{mul}": u * mul + v for mul, (u, v) in rows.items()})


# Channels u and v of the inputs, components i, j and k: (u, i) in the layout mul_ir, (i, u) in
# ir_mul; data are never moved from one to the other.
def channel_axis(layout: Layout) -> int:
    """Return the axis of the channels of features with one channel axis."""
    return -2 if layout == "mul_ir" else -1


def component_axis(layout: Layout) -> int:
    """Return the axis of the components of features with one channel axis."""
    return -1 if layout == "mul_ir" else -2


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
    w = weight.narrow(-1, *group.paths[0].weight).unflatten(-1, group.muls)
    if group.before == "mix x":
        return mix_channels(x, w, layout), y
    return x, mix_channels(y, w.mT, layout)


def couple_matched(x: Tensor, y: Tensor, table: Tensor, layout: Layout) -> Tensor:
    """Couple each channel of x with the same channel of y: (u, i), (u, j) to (u, k)."""
    if layout == "mul_ir":
        xy = (x.unsqueeze(-1) * y.unsqueeze(-2)).flatten(-2)
    else:
        xy = (x.unsqueeze(-2) * y.unsqueeze(-3)).flatten(-3, -2)
    return contract(xy, table.flatten(0, 1), layout)


def couple_pairs(x: Tensor, y: Tensor, table: Tensor, layout: Layout) -> Tensor:
    """Couple each channel of x with each of y: (u, i), (v, j) to (uv, k), v fastest."""
    # The table multiplies one input first, which avoids an intermediate of size (u, v, i, j),
    # unless an input has one channel or one component and the outer product is cheapest.
    # Both orders have the same result; they differ in the size of the intermediate tensor.
    u, v = (value.shape[channel_axis(layout)] for value in (x, y))
    first = pairs_order(u, v, table.shape)[0]
    if first == "y":
        z = _couple_second_first(x, y, table, layout)
    elif first == "x":
        # By symmetry, with the axes of the coupling exchanged.
        z = _couple_second_first(y, x, table.transpose(0, 1), layout)
        z = z.transpose(-3, -2) if layout == "mul_ir" else z.mT
    else:
        # all channels and all components: (u, i), (v, j) to (uv, ij), in any layout
        xy = (x[..., :, None, :, None] * y[..., None, :, None, :]).flatten(-4, -3).flatten(-2)
        return contract(xy, table.flatten(0, 1), layout)
    return z.flatten(-3, -2) if layout == "mul_ir" else z.flatten(-2)


def _couple_second_first(x: Tensor, y: Tensor, table: Tensor, layout: Layout) -> Tensor:
    """Couple to (u, v, k) or (k, u, v) by matrices (i, vk) or (i, kv) computed from y."""
    i, _, k = table.shape
    half = contract(y, table.transpose(0, 1).flatten(1), layout)
    if layout == "mul_ir":
        half = half.unflatten(-1, (i, k)).transpose(-3, -2).flatten(-2)
        return contract(x, half, layout).unflatten(-1, (-1, k))
    half = half.unflatten(-2, (i, k)).flatten(-2)
    return contract(x, half, layout).unflatten(-2, (k, -1)).mT


def pairs_order(u: int, v: int, shape: Sequence[int]) -> tuple[str, int]:
    """Return the input that multiplies the table first, and the multiply-adds of that order."""
    i, j, k = shape
    costs = {
        # All pairs of channels and of components, then the table.
        "xy": u * v * i * j * k,
        # The table with y, (i, v, k), and then x.
        "y": v * i * j * k + u * v * i * k,
        # The table with x, (j, u, k), and then y.
        "x": u * i * j * k + u * v * j * k,
    }
    first = min(costs, key=lambda order: costs[order])
    return first, costs[first]


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
    w = weight.narrow(-1, *path.weight)
    if path.after == "scale":
        return z * w.unsqueeze(component_axis(layout))
    # uvw, uuw and u<vw: all channels that were coupled mix into those of the output.
    return mix_channels(z, w.unflatten(-1, (-1, path.mul_out)), layout)


def contract(x: Tensor, matrix: Tensor, layout: Layout) -> Tensor:
    """Multiply the components of x, which has one channel axis, by a matrix (i, k)."""
    return x @ matrix if layout == "mul_ir" else matrix.mT @ x


def mix_channels(x: Tensor, matrix: Tensor, layout: Layout) -> Tensor:
    """Multiply the channels of x by a matrix (u, w)."""
    return matrix.mT @ x if layout == "mul_ir" else x @ matrix


def as_rows(value: Tensor, batch: torch.Size) -> Tensor:  # (..., dim) to (rows, dim)
    """Broadcast the leading axes and flatten them into one."""
    if value.ndim == 2 and value.shape[:-1] == batch:
        return value
    return value.expand(*batch, value.shape[-1]).reshape(-1, value.shape[-1])


def from_rows(rows: Tensor, batch: torch.Size) -> Tensor:
    """Restore the leading axes of contiguous rows: the inverse of :func:`as_rows`."""
    return rows if len(batch) == 1 else rows.view(*batch, rows.shape[1])
