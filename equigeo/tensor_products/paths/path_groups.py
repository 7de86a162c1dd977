"""Instructions grouped so that those that read the same pair of terms share one coupling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from equigeo.tensor_products.paths.couple import pairs_order
from equigeo.tensor_products.paths.instruction import Instruction
from equigeo.tensor_products.paths.path_tables import coefficients, weight_starts
from equigeo.tensor_products.paths.resolve import Operands, terms_of

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
    shape: tuple[int, int, int]  # of the table: components of x, of y, and of all paths

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


def group_paths(instructions: Sequence[Instruction], operands: Operands) -> list[PathGroup]:
    """Group instructions by their coupling, without those that have no channels."""
    return [group for group, _ in _grouped(instructions, operands)]


def group_tables(instructions: Sequence[Instruction], operands: Operands) -> list[Tensor]:
    """Concatenate the scaled couplings of each group along the output components."""
    return [
        torch.cat([coefficients(path, operands) for path in members], dim=-1)
        for _, members in _grouped(instructions, operands)
    ]


def _grouped(
    instructions: Sequence[Instruction], operands: Operands
) -> list[tuple[PathGroup, list[Instruction]]]:
    starts = weight_starts(instructions)
    shared: dict[tuple[object, ...], list[int]] = {}
    for n, path in enumerate(instructions):
        if 0 not in path.path_shape:
            before, matched = _coupling(path, operands)
            # Weights before the coupling compute an input for this path alone; it is not shared.
            alone = n if before.startswith("mix") else None
            key = (path.i_in1, path.i_in2, before, matched, alone)
            shared.setdefault(key, []).append(n)
    groups = []
    for numbers in shared.values():
        members = [instructions[n] for n in numbers]
        places = [(starts[n], starts[n + 1] - starts[n]) for n in numbers]
        paths = [_path(path, operands, at) for path, at in zip(members, places, strict=True)]
        groups.append((_group(members[0], tuple(paths), operands), members))
    return groups


def _group(first: Instruction, paths: tuple[PathOutput, ...], operands: Operands) -> PathGroup:
    (u, (l1, _)), (v, (l2, _)), _ = terms_of(first, operands)
    before, matched = _coupling(first, operands)
    shape = (2 * l1 + 1, 2 * l2 + 1, sum(path.dim for path in paths))
    return PathGroup(first.i_in1, first.i_in2, (u, v), before, matched, paths, shape)


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
