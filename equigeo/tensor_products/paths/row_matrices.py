"""Channel mixing by matrices per row, in two ops, for few rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from equigeo.nn import Tables
from equigeo.nn.channel_mixing import MixingBlock
from equigeo.nn.index_tables import IndexTables
from equigeo.ops import runs_compiled
from equigeo.ops.products.block_linear import block_linear_op
from equigeo.ops.runtime.torch_internals import autocast_active, has_kernel
from equigeo.reps import Irreps

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
        out: Tensor = block_linear_op(x, matrices, mixing, factors, self.dim_out, self.ir_mul)
        return out
