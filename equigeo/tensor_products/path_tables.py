"""Instructions as the tables that ops take."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from equigeo._core.tensors import computed_in, values_readable
from equigeo.nn import Tables
from equigeo.nn.tables import IndexTables
from equigeo.ops import Path, PathTable, Segment
from equigeo.reps import Irreps
from equigeo.reps.wigner import wigner_3j_table
from equigeo.tensor_products.instructions import Instruction, Operands, terms_of


class StoredTable(nn.Module):
    """A table of paths that follows its module to a device and is never saved."""

    def __init__(self, table: PathTable) -> None:
        super().__init__()
        self.positions = IndexTables(paths=table.paths, entries=table.entries)
        self.tables = Tables(values=table.values)
        self.dims = (table.dim_x, table.dim_y, table.dim_weight, table.dim_out)
        self.ir_mul = table.ir_mul
        self._last: PathTable | None = None

    def for_dtype(self, dtype: torch.dtype) -> PathTable:
        """Return the table for features of a dtype; half precision is computed in float32."""
        # A module finds its modules faster than as attributes.
        positions: Any = self._modules["positions"]
        tables: Any = self._modules["tables"]
        last = None if torch.compiler.is_compiling() else self._last
        # Buffers are others after a cast, a move to a device, and in functional calls.
        if last is not None and last.values.dtype == dtype:
            if (
                last.values is tables._buffers["values"]
                and last.paths is positions._buffers["paths"]
            ):
                return last
        values = tables["values", computed_in(dtype)]
        table = PathTable(positions["paths"], positions["entries"], values, *self.dims, self.ir_mul)
        if values_readable(values):  # a recorder's tensors must not be kept
            self._last = table
        return table

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self._last = None
        return super()._apply(fn, recurse)


def path_table(
    instructions: Sequence[Instruction], operands: Operands, *, by_output: bool = False
) -> PathTable:
    """Return the op table of instructions, without those that have no channels."""
    starts = weight_starts(instructions)
    paths = [
        Path(
            *segments(path, operands),
            start if path.has_weight else None,
            coefficients(path, operands),
        )
        for path, start in zip(instructions, starts, strict=False)
        if 0 not in path.path_shape
    ]
    first, second, out = operands
    dims = (first.dim, second.dim, starts[-1], out.dim)
    return PathTable.from_paths(paths, dims, by_output=by_output)


def segments(path: Instruction, operands: Operands) -> tuple[Segment, Segment, Segment]:
    """Return the segments of the terms that an instruction joins."""
    first, second, out = operands
    return _segment(first, path.i_in1), _segment(second, path.i_in2), _segment(out, path.i_out)


def _segment(irreps: Irreps, term: int) -> Segment:
    mul, (l, _) = irreps.terms[term]
    start = irreps.slices()[term].start
    return Segment.block(start, mul, 2 * l + 1, ir_mul=irreps.layout == "ir_mul")


def coefficients(path: Instruction, operands: Operands) -> Tensor:
    """Return the coupling of an instruction times its factor."""
    l1, l2, l3 = (l for _, (l, _) in terms_of(path, operands))
    return path.path_weight * wigner_3j_table(l1, l2, l3)


def weight_starts(instructions: Sequence[Instruction]) -> list[int]:
    """Return the weight offset of each instruction, and the total."""
    sizes = [math.prod(path.path_shape) if path.has_weight else 0 for path in instructions]
    return [*accumulate(sizes, initial=0)]


COUPLING = re.compile(r"_w3j_(\d+)_(\d+)_(\d+)$")


def without_tables(state: Mapping[str, Any], prefix: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a state into the entries of this library and the tables of e3nn."""
    foreign = {key for key in state if key.startswith(f"{prefix}_compiled_main_")}
    own = {key: value for key, value in state.items() if key not in foreign}
    return own, {key: state[key] for key in foreign}


def differing_couplings(
    tables: Mapping[str, Tensor], instructions: Sequence[Instruction], operands: Operands
) -> list[str]:
    """Return a message per saved coupling with the opposite sign."""
    # e3nn 0.4 has the opposite sign for some odd sums of degrees, such as (1, 2, 2), which changes
    # the meaning of its weights.
    signs = {
        tuple(l for _, (l, _) in terms_of(path, operands)): 1.0 if path.path_weight >= 0 else -1.0
        for path in instructions
    }
    problems = []
    for key, table in tables.items():
        match = COUPLING.search(key)
        if match is None or table.is_meta:
            continue
        l1, l2, l3 = (int(l) for l in match.groups())
        # Unit-norm couplings are unique up to sign, so that the sign of the overlap
        # distinguishes them.
        own = signs.get((l1, l2, l3), 1.0) * wigner_3j_table(l1, l2, l3).flatten()
        if float(table.detach().cpu().double().flatten() @ own) < 0:
            problems.append(
                f"{key} has the other sign, as in e3nn 0.4: convert the module by "
                "equigeo.interop.from_e3nn, which turns its paths"
            )
    return problems
