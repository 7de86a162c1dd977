"""Evaluators that run a list of instructions as one compiled op."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from equigeo._core.tensors import autocast_active, has_kernel
from equigeo.nn import Tables
from equigeo.nn.channel_mixing import ChannelMixing, MixingBlock
from equigeo.nn.tables import IndexTables
from equigeo.ops import Path, PathTable, Segment, runs_compiled
from equigeo.ops.products.block_linear import block_linear_op
from equigeo.ops.products.connected import (
    channelwise_product_op,
    copywise_product_op,
    fully_connected_product_op,
)
from equigeo.reps import Irreps
from equigeo.tensor_products.instructions import Instruction, Operands, terms_of
from equigeo.tensor_products.path_tables import (
    StoredTable,
    coefficients,
    path_table,
    segments,
    weight_starts,
)
from equigeo.tensor_products.reference import as_rows, from_rows


class CompiledPaths(nn.Module, ABC):
    """Base of groups of instructions that an op evaluates on rows."""

    op: ClassVar[str]
    shares_weights: ClassVar[bool] = False  # whether all rows have the same weights

    def accepts(self, x: Tensor, weight: Tensor | None) -> bool:
        """Return whether the op supports these inputs and is compiled for their device."""
        return x.dtype in (torch.float32, torch.float64) and runs_compiled(self.op, x.device)

    def evaluate(
        self,
        x: Tensor,
        y: Tensor,
        weight: Tensor | None,
        batch: torch.Size,  # broadcast leading axes
    ) -> Tensor:
        """Multiply validated inputs; not ``forward``, to avoid the overhead of a module call."""
        if weight is not None and not self.shares_weights:
            weight = as_rows(weight, batch)
        return from_rows(self.multiply(as_rows(x, batch), as_rows(y, batch), weight), batch)

    @abstractmethod
    def multiply(
        self,
        x: Tensor,  # (rows, dim)
        y: Tensor,  # (rows, dim)
        weight: Tensor | None,  # (rows, weight_numel), or (weight_numel,) if shared
    ) -> Tensor:  # (rows, irreps_out.dim), contiguous
        """Multiply row by row."""


class TablePaths(CompiledPaths):
    """Base of paths that one op evaluates by one table."""

    by_output: ClassVar[bool] = False  # whether the op takes paths sorted by output

    def __init__(self, instructions: Sequence[Instruction], operands: Operands) -> None:
        super().__init__()
        self.stored = StoredTable(path_table(instructions, operands, by_output=self.by_output))

    def table(self, dtype: torch.dtype) -> PathTable:
        """Return the table for features of a dtype, on the device of the module."""
        return self.stored.for_dtype(dtype)

    def multiply(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        table = self.table(x.dtype)
        return self.call(x, y, weight, table.paths, table.entries, table.values, table.dim_out)

    @abstractmethod
    def call(self, *arguments: Any) -> Tensor:
        """Call the op."""


@final
class CopywisePaths(TablePaths):
    """Paths ``uvuv`` or ``uuu``, all with or all without weights."""

    op = "copywise_product"
    call = staticmethod(copywise_product_op)


@final
class FullyConnectedPaths(TablePaths):
    """Paths ``uvw`` with weights per row."""

    op = "fully_connected_product"
    call = staticmethod(fully_connected_product_op)

    def accepts(self, x: Tensor, weight: Tensor | None) -> bool:
        return super().accepts(x, weight) and weight is not None and weight.ndim > 1


@final
class ChannelwisePaths(TablePaths):
    """Paths ``uvu``, all with or all without weights, as one channelwise product."""

    op = "channelwise_product"
    by_output = True

    def accepts(self, x: Tensor, weight: Tensor | None) -> bool:
        return x.dtype in (torch.float32, torch.float64, torch.bfloat16)

    def call(self, *arguments: Any) -> Tensor:
        return channelwise_product_op(*arguments, self.stored.ir_mul)


@final
class MixedPaths(CompiledPaths):
    """Paths ``uvw`` or ``uuw`` with shared weights, evaluated per output term."""

    op = "copywise_product"
    shares_weights = True

    def __init__(self, instructions: Sequence[Instruction], operands: Operands) -> None:
        super().__init__()
        self.out = operands[2]
        starts = weight_starts(instructions)
        self.mixers = nn.ModuleDict()
        for n in range(len(self.out.terms)):
            into = [
                (start, path)
                for path, start in zip(instructions, starts, strict=False)
                if path.i_out == n and 0 not in path.path_shape
            ]
            if into:
                self.mixers[str(n)] = TermMixer(into, operands)

    def accepts(self, x: Tensor, weight: Tensor | None) -> bool:
        return (weight is None or weight.ndim == 1) and super().accepts(x, weight)

    def multiply(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        parts = [x.new_zeros(x.shape[0], 0)]
        for n, (mul, (l, _)) in enumerate(self.out.terms):
            if str(n) in self.mixers:
                z = self.mixers[str(n)](x, y, weight)
                parts.append((z.mT if self.out.layout == "mul_ir" else z).flatten(1))
            else:
                parts.append(x.new_zeros(x.shape[0], mul * (2 * l + 1)))
        return torch.cat(parts, dim=1)


class TermMixer(nn.Module):
    """Paths into one output term: one op couples all channels, one matrix product mixes them."""

    def __init__(
        self,
        paths: Sequence[tuple[int, Instruction]],  # instructions with the offsets of their weights
        operands: Operands,
    ) -> None:
        super().__init__()
        channels = [[mul for mul, _ in terms_of(path, operands)] for _, path in paths]
        counts = [
            mul if path.connection == "uuw" else mul * mul2
            for (_, path), (mul, mul2, _) in zip(paths, channels, strict=True)
        ]
        *offsets, self.channels = accumulate(counts, initial=0)
        _, _, (self.mul, (l, _)) = terms_of(paths[0][1], operands)
        self.components = 2 * l + 1
        self.blocks = []
        rows = []
        for (start, path), offset, count in zip(paths, offsets, counts, strict=True):
            x, y, _ = segments(path, operands)
            out = Segment(offset, count, self.components, 1, self.channels)
            rows.append(Path(x, y, out, None, coefficients(path, operands)))
            self.blocks.append((start if path.has_weight else None, count))
        dims = (operands[0].dim, operands[1].dim, 0, self.channels * self.components)
        self.stored = StoredTable(PathTable.from_paths(rows, dims))

    def forward(self, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Couple rows and mix, to (rows, components, mul)."""
        table = self.stored.for_dtype(x.dtype)
        tables = (table.paths, table.entries, table.values)
        couplings: Tensor = copywise_product_op(x, y, None, *tables, table.dim_out)
        mixed = couplings.view(-1, self.channels) @ self._matrix(weight, x)
        return mixed.view(x.shape[0], self.components, self.mul)

    def _matrix(self, weight: Tensor | None, like: Tensor) -> Tensor:
        """Return the weights of all paths, (channels, mul), with ones for paths without weights."""
        blocks = []
        for start, count in self.blocks:
            if weight is None or start is None:
                blocks.append(like.new_ones(count, self.mul))
            else:
                blocks.append(weight.narrow(0, start, count * self.mul).view(count, self.mul))
        return torch.cat(blocks)


# With fewer scalars per matrix entry, memory bandwidth limits the op and sums over scalars win.
FEWEST_SCALARS = 16
# Entries of the matrices of all rows, 8 MiB in float32; beyond the caches, sums win as well.
MOST_NUMBERS = 2**21


class RowMatrices(nn.Module):
    """Channel mixing by matrices M_uw = sum_v W_uvw y_v per row, in two ops."""

    # z_wm = sum_u M_uw x_um. Gradients by x alone, as for forces, never use the scalars again.
    def __init__(
        self, irreps_in: Irreps, irreps_out: Irreps, blocks: Sequence[MixingBlock]
    ) -> None:
        super().__init__()
        starts = [part.start for part in irreps_out.slices()]
        making, mixing, end = [], [], 0
        for block in blocks:
            mul, scalars, mul_out = block.shape
            _, (l, _) = irreps_out.terms[block.i_out]
            # As a linear map of the scalars: one row of the matrix for each channel of the input.
            size = scalars * mul_out
            making += [
                [block.scalar, scalars, end + u * mul_out, mul_out, 1, block.weight + u * size]
                for u in range(mul)
            ]
            mixing.append([block.start, mul, starts[block.i_out], mul_out, 2 * l + 1, end])
            end += mul * mul_out
        self.numbers, self.dim_out = end, irreps_out.dim
        self.ir_mul = irreps_in.layout == "ir_mul"
        self.worth = min((block.shape[1] for block in blocks), default=0) >= FEWEST_SCALARS
        rows = (torch.tensor(found, dtype=torch.int64).view(-1, 6) for found in (making, mixing))
        self.positions = IndexTables(**dict(zip(("making", "mixing"), rows, strict=True)))
        factors = torch.tensor([block.factor for block in blocks], dtype=torch.float64)
        ones = torch.ones(len(making), dtype=torch.float64)
        self.tables = Tables(ones=ones, factors=factors)

    def takes(self, x: Tensor, weight: Tensor) -> bool:
        """Return whether this is the faster method for these rows and weights."""
        # A compiler would specialize the graph on the number of rows.
        if not self.worth or torch.compiler.is_compiling() or autocast_active():
            return False
        return (
            x.shape[0] * self.numbers <= MOST_NUMBERS
            and x.dtype == weight.dtype
            and x.dtype in (torch.float32, torch.float64)
            and runs_compiled("block_linear", x.device)
            and has_kernel("block_linear", x.device.type.upper())  # the reference loops over blocks
        )

    def mix(
        self,
        x: Tensor,  # (rows, irreps_in.dim)
        y: Tensor,  # (rows, scalars)
        weight: Tensor,  # (numel,), all blocks
    ) -> Tensor:  # (rows, irreps_out.dim), contiguous
        """Mix channels; output terms without blocks are zero."""
        positions, tables, dtype = self.positions, self.tables, x.dtype
        making, ones = positions["making"], tables["ones", dtype]
        matrices = block_linear_op(y, weight[None], making, ones, self.numbers, False)
        mixing, factors = positions["mixing"], tables["factors", dtype]
        return block_linear_op(x, matrices, mixing, factors, self.dim_out, self.ir_mul)


@final
class ScaledPaths(CompiledPaths):
    """Paths ``uvw`` with scalars as second input and shared weights."""

    # A coupling with a scalar is a multiple c of the identity: z_w = sum_uv (c w_uvw) x_u y_v.
    shares_weights = True

    def __init__(self, instructions: Sequence[Instruction], operands: Operands) -> None:
        super().__init__()
        first, second, out = operands
        *starts, numel = weight_starts(instructions)
        # A single scalar scales whole rows before they are split into channels.
        self.by_row = second.dim == 1
        blocks = []
        for path, start in zip(instructions, starts, strict=True):
            if 0 in path.path_shape:
                continue
            factor = float(coefficients(path, operands)[0, 0, 0])
            shape = path.path_shape[::2] if self.by_row else path.path_shape
            place, scalar = first.slices()[path.i_in1].start, second.slices()[path.i_in2].start
            blocks.append(MixingBlock(place, path.i_out, shape, start, factor, scalar))
        self.mixing = ChannelMixing(first, out, blocks, numel)
        self.matrices = None if self.by_row else RowMatrices(first, out, blocks)

    def accepts(self, x: Tensor, weight: Tensor | None) -> bool:
        return weight is not None and weight.ndim == 1

    def multiply(self, x: Tensor, y: Tensor, weight: Any) -> Tensor:
        if self.by_row:
            return self.mixing(x * y, weight)
        if self.matrices is not None and self.matrices.takes(x, weight):
            return self.matrices.mix(x, y, weight)
        return self.mixing(x, weight, y)
