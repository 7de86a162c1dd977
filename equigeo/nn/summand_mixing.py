"""Sums of equivariant maps between the summands of two representations, with weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate, product
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from equigeo._core.cache import kept
from equigeo._core.tensors import plain_tensors, rounded_once
from equigeo.nn.channel_mixing import MixingBlock, join_sums
from equigeo.nn.tables import IndexTables, Tables
from equigeo.reps import Irreps, Representation, Summand, Trivial, intertwiners, wigner_3j
from equigeo.reps.irreps import Irrep
from equigeo.reps.representation import Kronecker


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
    if pairs is None:
        every = product(range(len(ins)), range(len(outs)))
        pairs = [(i, j) for i, j in every if ins[i][1] == outs[j][1]]
    for i, j in pairs:
        check_pair(i, j, len(ins), len(outs))
        if ins[i][1] != outs[j][1]:
            raise ValueError(
                f"instruction {i, j} must join equal irreps, got {Irreps([ins[i]])} and "
                f"{Irreps([outs[j]])}"
            )
    return [(i, j, (ins[i][0], outs[j][0])) for i, j in pairs]


def check_pair(i: int, j: int, inputs: int, outputs: int) -> None:
    """Raise ``ValueError`` unless two terms are among the given numbers of terms."""
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


class SummandMixing(nn.Module):
    """All equivariant maps between the summands of two representations, with external weights."""

    def __init__(
        self,
        rep_in: Representation,
        rep_out: Representation,
        *,
        # summands to connect, by default all that have maps
        pairs: Sequence[tuple[int, int]] | None = None,
        biases: bool | Sequence[bool] = False,  # per output summand, or all with invariants
        path_normalization: str = "element",
    ) -> None:
        super().__init__()
        with plain_tensors():
            self._ins, self._outs = rep_in.summands(), rep_out.summands()
            maps = _connect(self._ins, self._outs, pairs)
            shapes = [
                (i, j, (len(self._ins[i].positions), len(m), len(self._outs[j].positions)))
                for (i, j), m in maps.items()
            ]
            self.blocks = normalize(shapes, path_normalization)
            factors = [block.path_weight for block in self.blocks]
            tables = [m.flatten(0, 1) * f for m, f in zip(maps.values(), factors, strict=True)]
            self.shifts, shifted = _place_biases(self._outs, biases, rep_out)
            sources, targets = _order(self._ins), _order(self._outs)
            places = targets.argsort()
            self._sorted = [torch.equal(x, torch.arange(len(x))) for x in (sources, targets)]
        self.tables = Tables(shifted=shifted, **{f"maps{n}": m for n, m in enumerate(tables)})
        self.positions = IndexTables(sources=sources, places=places)

    def reached(self) -> set[int]:
        """Return the output summands that have a weight or a bias."""
        return {part.i_out for part in (*self.blocks, *self.shifts)}

    def output_mask(self) -> Tensor:  # (rep_out.dim,)
        """Return 1 for output components that have a weight or a bias, else 0."""
        mask = torch.zeros(sum(part.positions.numel() for part in self._outs))
        for j in self.reached():
            mask[self._outs[j].positions] = 1.0
        return mask

    def forward(
        self,
        x: Tensor,  # (..., rep_in.dim)
        weight: Tensor,  # (..., numel of the blocks)
        bias: Tensor,  # (..., numel of the shifts)
        batch: torch.Size,  # broadcast leading axes
    ) -> Tensor:  # (*batch, rep_out.dim)
        """Apply z_w = sum_uk W_ukw A_k x_u / sqrt(fan) + sum_k b_kw v_k; zero without weights."""
        # A_k are the intertwiners times sqrt(dim of the output), so that irreps map by the
        # identity; the invariants v_k have unit length.
        return rounded_once(partial(self._mix_all, batch=batch), [x, weight, bias])

    def _mix_all(self, x: Tensor, weight: Tensor, bias: Tensor, batch: torch.Size) -> Tensor:
        if not self._sorted[0]:
            x = x.index_select(-1, self.positions["sources"])
        pieces = x.split([part.positions.numel() for part in self._ins], -1)
        arriving: list[list[Tensor]] = [[] for _ in self._outs]
        weights = weight.split(sizes(self.blocks), -1) if self.blocks else ()
        for n, (block, w) in enumerate(zip(self.blocks, weights, strict=True)):
            arriving[block.i_out].append(self._mix(n, block, pieces[block.i_in], w))
        mixed = join_sums(arriving, [part.positions.numel() for part in self._outs], batch, x)
        if not self._sorted[1]:
            mixed = mixed.index_select(-1, self.positions["places"])
        return mixed + bias @ self.tables["shifted", bias.dtype] if self.shifts else mixed

    def _mix(self, n: int, block: LinearInstruction, x: Tensor, weight: Tensor) -> Tensor:
        """Apply all maps of a block to all copies, then mix the results by the weights."""
        copies, count, _ = block.path_shape
        moved = x.unflatten(-1, (copies, -1)) @ self.tables[f"maps{n}", x.dtype].mT
        # (..., copies, maps components) to (..., components, copies maps), which weights sum over
        moved = moved.unflatten(-1, (count, -1)).movedim(-1, -3).flatten(-2)
        mixed = moved @ weight.unflatten(-1, (copies * count, -1))
        return mixed.mT.flatten(-2)


def _connect(
    ins: Sequence[Summand], outs: Sequence[Summand], pairs: Sequence[tuple[int, int]] | None
) -> dict[tuple[int, int], Tensor]:
    """Return the maps between the summands of each pair, without empty pairs."""
    chosen = list(product(range(len(ins)), range(len(outs)))) if pairs is None else pairs
    found = {}
    for i, j in chosen:
        check_pair(i, j, len(ins), len(outs))
        maps = summand_maps(ins[i].rep, outs[j].rep)
        if len(maps):
            found[i, j] = maps
        elif pairs is not None:
            raise ValueError(
                f"instruction {i, j} must join summands between which there is a map, "
                f"got {ins[i].rep} and {outs[j].rep}"
            )
    return found


@kept
def summand_maps(
    rep_in: Representation, rep_out: Representation
) -> Tensor:  # (maps, rep_out.dim, rep_in.dim), float64, orthogonal
    """Return equivariant maps that preserve variance, with the signs of e3nn; do not modify."""
    parts = (*rep_in.factors, rep_out) if isinstance(rep_in, Kronecker) else ()
    irreps = [part.terms[0][1] for part in parts if isinstance(part, Irreps)]
    maps = _coupling(*irreps) if len(irreps) == len(parts) == 3 else intertwiners(rep_in, rep_out)
    return maps * rep_out.dim**0.5


def _coupling(first: Irrep, second: Irrep, third: Irrep) -> Tensor:
    """Return Clebsch-Gordan coefficients, or an empty table; fixes the sign of the basis."""
    (l1, p1), (l2, p2), (l3, p3) = first, second, third
    maps = wigner_3j(l1, l2, l3).flatten(0, 1).mT[None]
    return maps if p1 * p2 == p3 and abs(l1 - l2) <= l3 <= l1 + l2 else maps[:0]


def _place_biases(
    outs: Sequence[Summand], biases: bool | Sequence[bool], rep_out: Representation
) -> tuple[tuple[LinearInstruction, ...], Tensor]:
    """Return the biases of invariants and their positions, (biases, components)."""
    if biases is False:  # most often: no invariants have to be found
        return (), torch.zeros(0, rep_out.dim, dtype=torch.float64)
    invariants = [intertwiners(Trivial(part.rep.group, 1), part.rep)[..., 0] for part in outs]
    wanted = wanted_biases(biases, [len(vectors) > 0 for vectors in invariants])
    shifts, rows = [], [torch.zeros(0, rep_out.dim, dtype=torch.float64)]
    for j, (bias, vectors, part) in enumerate(zip(wanted, invariants, outs, strict=True)):
        if bias and not len(vectors):
            raise ValueError(f"only what has invariants can have a bias, got {part.rep}")
        if bias:
            shifts.append(LinearInstruction(-1, j, (len(vectors), len(part.positions)), 1.0))
            for vector, place in product(vectors, part.positions):
                row = torch.zeros(1, rep_out.dim, dtype=torch.float64)
                row[0, place] = vector
                rows.append(row)
    return tuple(shifts), torch.cat(rows)


def _order(parts: Sequence[Summand]) -> Tensor:
    """Return the positions of all components by summand and copy."""
    return torch.cat([torch.arange(0), *(part.positions.flatten() for part in parts)])
