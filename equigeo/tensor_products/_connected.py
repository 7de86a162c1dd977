"""Products whose channels meet in pairs, each as one op or as a few."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from equigeo.nn import Tables
from equigeo.ops import (
    Connection,
    ConnectionTable,
    Segment,
    copywise_product,
    fully_connected_product,
)
from equigeo.reps.wigner_3j import wigner_3j_table
from equigeo.tensor_products._index_tables import IndexTables
from equigeo.tensor_products._resolve import Operands, terms_of
from equigeo.tensor_products.instruction import Instruction

LARGEST_DEGREE = 6  # of first inputs and outputs that are mixed in registers


class ConnectedPaths(nn.Module):
    """Evaluates some instructions on rows.

    Subclasses implement ``multiply`` for features and weights with one leading axis.
    """

    def accepts(self, x: Tensor, weight: Tensor | None) -> bool:
        """Whether ops take these features and weights."""
        return x.dtype in (torch.float32, torch.float64)

    def forward(
        self, x: Tensor, y: Tensor, weight: Tensor | None, batch: tuple[int, ...]
    ) -> Tensor:
        """Multiply; leading axes are broadcast to ``batch``."""
        out = self.multiply(_rows(x, batch), _rows(y, batch), self.read_weight(weight, batch))
        return out.unflatten(0, batch) if batch else out.squeeze(0)

    def read_weight(self, weight: Tensor | None, batch: tuple[int, ...]) -> Tensor | None:
        """Give weights a leading axis."""
        return None if weight is None else _rows(weight, batch)

    def multiply(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Multiply row by row."""
        raise NotImplementedError


class StoredTable(nn.Module):
    """A table of paths that follows its module to a device and is never saved."""

    def __init__(self, table: ConnectionTable) -> None:
        super().__init__()
        self.places = IndexTables(paths=table.paths, entries=table.entries)
        self.tables = Tables(values=table.values)
        self.dims = (table.dim_x, table.dim_y, table.dim_weight, table.dim_out)

    def forward(self, dtype: torch.dtype) -> ConnectionTable:
        """Give the table for features of a dtype."""
        values = self.tables["values", dtype]
        return ConnectionTable(self.places["paths"], self.places["entries"], values, *self.dims)


class CopywisePaths(ConnectedPaths):
    """All ``uvuv`` or ``uuu``, all with weights or all without, as one op."""

    def __init__(self, instructions: Sequence[Instruction], operands: Operands) -> None:
        super().__init__()
        self.table = StoredTable(connection_table(instructions, operands))

    def multiply(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Multiply row by row."""
        return copywise_product(x, y, weight, self.table(x.dtype))


class FullyConnectedPaths(ConnectedPaths):
    """All ``uvw``, with weights of every row, as one op."""

    def __init__(self, instructions: Sequence[Instruction], operands: Operands) -> None:
        super().__init__()
        self.table = StoredTable(connection_table(instructions, operands))

    def accepts(self, x: Tensor, weight: Tensor | None) -> bool:
        """Whether the op takes these features and weights."""
        return super().accepts(x, weight) and weight is not None and weight.ndim > 1

    def multiply(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Multiply row by row."""
        if weight is None:
            raise ValueError("weight is missing")
        return fully_connected_product(x, y, weight, self.table(x.dtype))


class MixedPaths(ConnectedPaths):
    """All ``uvw`` or ``uuw`` with the same weights for all rows, by matrix products.

    For each term of the output, one op couples all pairs of channels that lead there and puts the
    components outside, so that one matrix product mixes all of them.
    """

    def __init__(self, instructions: Sequence[Instruction], operands: Operands) -> None:
        super().__init__()
        self.out = operands[2]
        starts = _weight_starts(instructions)
        self.mixers = nn.ModuleDict()
        for n, (mul, _) in enumerate(self.out.terms):
            into = [i for i, path in enumerate(instructions) if _leads_to(path, n)]
            if into:
                members = [instructions[i] for i in into]
                self.mixers[str(n)] = TermMixer(members, [starts[i] for i in into], mul, operands)

    def read_weight(self, weight: Tensor | None, batch: tuple[int, ...]) -> Tensor | None:
        """Leave the weights as they are."""
        return weight

    def multiply(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Multiply row by row."""
        parts = [x.new_zeros(x.shape[0], 0)]
        for n, (mul, (l, _)) in enumerate(self.out.terms):
            if str(n) not in self.mixers:
                parts.append(x.new_zeros(x.shape[0], mul * (2 * l + 1)))
                continue
            z = self.mixers[str(n)](x, y, weight)
            parts.append((z.mT if self.out.layout == "mul_ir" else z).flatten(1))
        return torch.cat(parts, dim=1)


class TermMixer(nn.Module):
    """Couplings into one term of the output, and their mixing.

    Parameters
    ----------
    instructions : sequence of Instruction
        Those that lead there.
    starts : sequence of int
        Where their weights begin.
    mul : int
        Channels of the term.
    operands : (Irreps, Irreps, Irreps)
        What the instructions join.
    """

    def __init__(
        self,
        instructions: Sequence[Instruction],
        starts: Sequence[int],
        mul: int,
        operands: Operands,
    ) -> None:
        super().__init__()
        self.mul = mul
        counts = [_couplings(path, operands) for path in instructions]
        offsets = [*accumulate(counts, initial=0)]
        self.channels = offsets.pop()
        self.blocks = [
            (start if path.has_weight else None, count)
            for path, start, count in zip(instructions, starts, counts, strict=True)
        ]
        connections = []
        for path, offset, count in zip(instructions, offsets, counts, strict=True):
            x, y, out = segments(path, operands)
            channels = Segment(offset, count, out.d, 1, self.channels)
            connections.append(Connection(x, y, channels, None, coefficients(path, operands)))
            self.components = out.d
        dims = (operands[0].dim, operands[1].dim, 0, self.channels * self.components)
        self.table = StoredTable(ConnectionTable.from_connections(connections, dims))

    def forward(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Couple rows and mix, to (rows, components, mul)."""
        couplings = copywise_product(x, y, None, self.table(x.dtype)).view(-1, self.channels)
        mixed = couplings @ self._matrix(weight, x)
        return mixed.view(x.shape[0], self.components, self.mul)

    def _matrix(self, weight: Tensor | None, like: Tensor) -> Tensor:
        blocks = []
        for start, count in self.blocks:
            if weight is None or start is None:
                blocks.append(like.new_ones(count, self.mul))
            else:
                blocks.append(weight.narrow(0, start, count * self.mul).view(count, self.mul))
        return torch.cat(blocks)


def connected_paths(
    instructions: Sequence[Instruction], operands: Operands, *, shared_weights: bool
) -> ConnectedPaths | None:
    """Gather instructions for the ops; None where there are other connections or a mixture.

    Parameters
    ----------
    instructions : sequence of Instruction
        Resolved, with their factors.
    operands : (Irreps, Irreps, Irreps)
        What they join.
    shared_weights : bool
        Whether all rows have the same weights.

    Returns
    -------
    ConnectedPaths or None
        What evaluates them.
    """
    paths = [path for path in instructions if 0 not in path.path_shape]
    modes = {path.connection for path in paths}
    weighted = {path.has_weight for path in paths}
    if not paths:
        return None
    if modes <= {"uvuv", "uuu"} and len(weighted) == 1:
        return CopywisePaths(instructions, operands)
    if modes <= {"uvw", "uuw"} and (shared_weights or weighted == {False}):
        return MixedPaths(instructions, operands)
    degrees = [l for path in paths for _, (l, _) in terms_of(path, operands)[::2]]
    if modes == {"uvw"} and max(degrees) <= LARGEST_DEGREE:
        return FullyConnectedPaths(instructions, operands)
    return None


def connection_table(instructions: Sequence[Instruction], operands: Operands) -> ConnectionTable:
    """Describe instructions to the ops, those without channels left out."""
    starts = _weight_starts(instructions)
    connections = [
        Connection(
            *segments(path, operands),
            start if path.has_weight else None,
            coefficients(path, operands),
        )
        for path, start in zip(instructions, starts, strict=False)
        if 0 not in path.path_shape
    ]
    first, second, out = operands
    return ConnectionTable.from_connections(
        connections, (first.dim, second.dim, starts[-1], out.dim)
    )


def segments(path: Instruction, operands: Operands) -> list[Segment]:
    """Terms that an instruction joins, as segments of rows."""
    made = []
    places = (path.i_in1, path.i_in2, path.i_out)
    for irreps, place, (mul, (l, _)) in zip(
        operands, places, terms_of(path, operands), strict=True
    ):
        start = irreps.slices()[place].start
        made.append(Segment.block(start, mul, 2 * l + 1, ir_mul=irreps.layout == "ir_mul"))
    return made


def coefficients(path: Instruction, operands: Operands) -> Tensor:
    """Coupling of an instruction, with its factor."""
    l1, l2, l3 = (l for _, (l, _) in terms_of(path, operands))
    return path.path_weight * wigner_3j_table(l1, l2, l3)


def _leads_to(path: Instruction, term: int) -> bool:
    return path.i_out == term and 0 not in path.path_shape


def _couplings(path: Instruction, operands: Operands) -> int:
    (mul, _), (mul2, _), _ = terms_of(path, operands)
    return mul if path.connection == "uuw" else mul * mul2


def _weight_starts(instructions: Sequence[Instruction]) -> list[int]:
    """Offset of the weights of each instruction, and of what is behind the last."""
    sizes = [math.prod(path.path_shape) if path.has_weight else 0 for path in instructions]
    return [*accumulate(sizes, initial=0)]


def _rows(value: Tensor, batch: tuple[int, ...]) -> Tensor:
    return value.expand(*batch, value.shape[-1]).reshape(-1, value.shape[-1])
