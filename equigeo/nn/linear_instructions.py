"""Blocks of weights of linear maps: what they connect, their sizes and their factors.

On its own because maps between irreps and maps between any representations number, normalise and
report their blocks alike.
"""

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
    """One block of weights, or with ``i_in == -1`` one bias."""

    i_in: int
    i_out: int
    path_shape: tuple[int, ...]
    path_weight: float


def normalize(
    blocks: Sequence[tuple[int, int, tuple[int, ...]]], path_normalization: str
) -> tuple[LinearInstruction, ...]:
    """Give blocks the factors by which inputs and weights of unit variance give such outputs.

    Parameters
    ----------
    blocks : sequence of (int, int, tuple of int)
        Term of the input, term of the output, and the shape of the weights, of which all axes but
        the last are summed over.
    path_normalization : {"element", "path"}
        As in :class:`equigeo.nn.Linear`.

    Returns
    -------
    tuple of LinearInstruction
        In the same order.

    Raises
    ------
    ValueError
        If the normalization is unknown.
    """
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
    """Numbers of weights of each block.

    Parameters
    ----------
    instructions : sequence of LinearInstruction
        Blocks or biases.

    Returns
    -------
    list of int
        Their lengths in the flat vector.
    """
    return [prod(ins.path_shape) for ins in instructions]


def connect_irreps(
    irreps_in: Irreps, irreps_out: Irreps, pairs: Sequence[tuple[int, int]] | None
) -> list[tuple[int, int, tuple[int, ...]]]:
    """Pairs of terms with the same irrep, all or those asked for, and the shape of their weights.

    Parameters
    ----------
    irreps_in, irreps_out : Irreps
        Representations of the two sides.
    pairs : sequence of (int, int) or None
        Terms to connect.

    Returns
    -------
    list of (int, int, tuple of int)
        As :func:`normalize` takes them.

    Raises
    ------
    ValueError
        If a pair names a term that does not exist, or joins different irreps.
    """
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


def check_pair(pair: tuple[int, int], inputs: int, outputs: int) -> None:
    """Refuse a pair of terms that do not exist.

    Parameters
    ----------
    pair : (int, int)
        Term of the input, term of the output.
    inputs, outputs : int
        How many there are.

    Raises
    ------
    ValueError
        If one is out of range.
    """
    i, j = pair
    if not (0 <= i < inputs and 0 <= j < outputs):
        raise ValueError(f"instruction {i, j} must index {inputs} input and {outputs} output terms")


def wanted_biases(biases: bool | Sequence[bool], able: Sequence[bool]) -> Sequence[bool]:
    """Which terms of the output are to have a bias.

    Parameters
    ----------
    biases : bool or sequence of bool
        One for each term, or whether all that can have one do.
    able : sequence of bool
        Which terms are, or have, invariants.

    Returns
    -------
    sequence of bool
        One for each term.

    Raises
    ------
    ValueError
        If there is not one for each.
    """
    wanted = [biases and can for can in able] if isinstance(biases, (bool, np.bool_)) else biases
    if len(wanted) != len(able):
        raise ValueError(f"biases must have one entry per output term, {len(able)}: {biases}")
    return wanted


def place_biases(irreps: Irreps, biases: bool | Sequence[bool]) -> tuple[LinearInstruction, ...]:
    """Biases of scalars.

    Parameters
    ----------
    irreps : Irreps
        Representation of the output.
    biases : bool or sequence of bool
        As in :class:`equigeo.nn.Linear`.

    Returns
    -------
    tuple of LinearInstruction
        One for each term with a bias.

    Raises
    ------
    ValueError
        If a bias is asked of something that is no scalar, or not one for each term.
    """
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
    """Blocks of weights, and where they begin; those without channels are left out.

    Parameters
    ----------
    instructions : sequence of LinearInstruction
        Blocks between irreps.
    irreps_in : Irreps
        Representation of the input.

    Returns
    -------
    list of MixingBlock
        As :class:`equigeo.nn.channel_mixing.ChannelMixing` takes them.
    """
    starts = [part.start for part in irreps_in.slices()]
    offsets = accumulate(sizes(instructions), initial=0)
    return [
        MixingBlock(starts[ins.i_in], ins.i_out, ins.path_shape, offset, ins.path_weight)
        for ins, offset in zip(instructions, offsets, strict=False)
        if 0 not in ins.path_shape
    ]


@plain_tensors()
def block_table(blocks: Sequence[MixingBlock], irreps_out: Irreps) -> tuple[Tensor, Tensor]:
    """Blocks and their factors, as the op takes them.

    Parameters
    ----------
    blocks : sequence of MixingBlock
        Of one linear map.
    irreps_out : Irreps
        Representation of the output.

    Returns
    -------
    blocks : Tensor, (blocks, 6), int64
        Where each begins and how large it is.
    factors : Tensor, (blocks,), float64
        By which its weights are multiplied.
    """
    starts = [part.start for part in irreps_out.slices()]
    rows = []
    for block in blocks:
        (mul, mul_out), (_, (l, _)) = block.shape, irreps_out.terms[block.i_out]
        rows.append([block.start, mul, starts[block.i_out], mul_out, 2 * l + 1, block.weight])
    table = torch.tensor(rows, dtype=torch.int64).view(-1, 6)
    return table, torch.tensor([block.factor for block in blocks], dtype=torch.float64)
