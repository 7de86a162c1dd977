"""Blocks of weights of linear maps: connected terms, sizes and factors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from equigeo.nn.channel_mixing import MixingBlock
from equigeo.ops.runtime.torch_internals import plain_tensors
from equigeo.reps import Irreps


class LinearInstruction(NamedTuple):
    """A block of weights, or a bias if ``i_in == -1``."""

    i_in: int
    i_out: int
    path_shape: tuple[int, ...]
    path_weight: float


def normalize(
    # input term, output term, and weight shape; all axes but the last are summed
    blocks: Sequence[tuple[int, int, tuple[int, ...]]],
    path_normalization: str,  # "element" or "path", as in equigeo.nn.Linear
) -> tuple[LinearInstruction, ...]:
    """Assign each block the factor that keeps unit variance from inputs to outputs."""
    if path_normalization not in ("element", "path"):
        raise ValueError(
            f'path_normalization must be "element" or "path", got {path_normalization!r}'
        )
    out = []
    for i, j, shape in blocks:
        # independent inputs and weights of unit variance give outputs of variance fan
        summed = [prod(other[:-1]) for _, target, other in blocks if target == j]
        element = path_normalization == "element"
        fan = sum(summed) if element else prod(shape[:-1]) * len(summed)
        out.append(LinearInstruction(i, j, shape, 1.0 if fan == 0 else fan**-0.5))
    return tuple(out)


def sizes(instructions: Sequence[LinearInstruction]) -> list[int]:
    """Return the number of weights of each block or bias."""
    return [prod(ins.path_shape) for ins in instructions]


def connect_irreps(
    irreps_in: Irreps,
    irreps_out: Irreps,
    pairs: Sequence[tuple[int, int]] | None,  # terms to connect
) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return pairs of terms with equal irreps, all or the given ones, with their weight shapes."""
    ins, outs = irreps_in.terms, irreps_out.terms
    for i, j in () if pairs is None else pairs:
        check_pair((i, j), len(ins), len(outs))
        if ins[i][1] != outs[j][1]:
            raise ValueError(
                f"instruction {i, j} must join equal irreps, got {Irreps([ins[i]])} and "
                f"{Irreps([outs[j]])}"
            )
    if pairs is None:
        pairs = [
            (i, j)
            for i, (_, ir) in enumerate(ins)
            for j, (_, other) in enumerate(outs)
            if ir == other
        ]
    return [(i, j, (ins[i][0], outs[j][0])) for i, j in pairs]


def check_pair(
    pair: tuple[int, int],
    inputs: int,  # number of input terms
    outputs: int,  # number of output terms
) -> None:
    """Raise ``ValueError`` if a pair of terms is out of range."""
    i, j = pair
    if not (0 <= i < inputs and 0 <= j < outputs):
        raise ValueError(f"instruction {i, j} must index {inputs} input and {outputs} output terms")


def wanted_biases(
    biases: bool | Sequence[bool],  # one per term, or whether all terms that can have one do
    able: Sequence[bool],  # whether terms are or contain invariants
) -> Sequence[bool]:
    """Return a flag per output term: whether it has a bias."""
    wanted = [biases and can for can in able] if isinstance(biases, (bool, np.bool_)) else biases
    if len(wanted) != len(able):
        raise ValueError(f"biases must have one entry per output term, {len(able)}: {biases}")
    return wanted


def place_biases(irreps: Irreps, biases: bool | Sequence[bool]) -> tuple[LinearInstruction, ...]:
    """Return a bias instruction for each scalar term with a bias."""
    scalar = [ir == (0, 1) for _, ir in irreps]
    wanted = wanted_biases(biases, scalar)
    for j, (bias, is_scalar) in enumerate(zip(wanted, scalar, strict=True)):
        if bias and not is_scalar:
            raise ValueError(f"only scalars 0e can have a bias, got {Irreps([irreps.terms[j]])}")
    return tuple(
        LinearInstruction(-1, j, (irreps.terms[j][0],), 1.0)
        for j, bias in enumerate(wanted)
        if bias
    )


def mixing_blocks(
    instructions: Sequence[LinearInstruction], irreps_in: Irreps
) -> list[MixingBlock]:
    """Return the nonempty blocks with their offsets, for ``ChannelMixing``."""
    starts = [part.start for part in irreps_in.slices()]
    offsets = accumulate(sizes(instructions), initial=0)
    return [
        MixingBlock(starts[ins.i_in], ins.i_out, ins.path_shape, offset, ins.path_weight)
        for ins, offset in zip(instructions, offsets, strict=False)
        if 0 not in ins.path_shape
    ]


@plain_tensors()
def block_table(
    blocks: Sequence[MixingBlock], irreps_out: Irreps
) -> tuple[Tensor, Tensor]:  # (blocks, 6) int64, (blocks,) float64
    """Return blocks and factors as arguments of ``block_linear``."""
    starts = [part.start for part in irreps_out.slices()]
    rows = []
    for block in blocks:
        (mul, mul_out), (_, (l, _)) = block.shape, irreps_out.terms[block.i_out]
        rows.append([block.start, mul, starts[block.i_out], mul_out, 2 * l + 1, block.weight])
    table = torch.tensor(rows, dtype=torch.int64).view(-1, 6)
    return table, torch.tensor([block.factor for block in blocks], dtype=torch.float64)
