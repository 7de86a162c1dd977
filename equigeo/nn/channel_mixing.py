"""Channels mixed by shared weights: one matrix product per output term."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from equigeo._core.tensors import computed_in, plain_tensors
from equigeo.nn.tables import IndexTables, Tables
from equigeo.reps import Irreps, Representation


def cut_pieces(
    ranges: Iterable[tuple[int, int]],  # (start, size), nonempty, equal or disjoint
    end: int,  # length of the row
) -> tuple[list[int], dict[int, int]]:
    """Return sizes of all pieces of a row for ``Tensor.split``, and the piece index per offset."""
    cuts = sorted({0, end, *(cut for start, size in ranges for cut in (start, start + size))})
    return [after - cut for cut, after in pairwise(cuts)], {
        cut: number for number, cut in enumerate(cuts[:-1])
    }


def join_sums(
    arriving: Sequence[Sequence[Tensor]],  # (..., size) per term
    sizes: Sequence[int],  # sizes of the terms
    batch: torch.Size,  # leading axes
    like: Tensor,  # tensor with the dtype of the result without contributions
) -> Tensor:  # (*batch, sum of sizes)
    """Sum the contributions to each term and concatenate the terms; zero without contributions."""
    # Autocast decides the dtype of contributions.
    like = next((part for parts in arriving for part in parts), like)
    out = [like.new_zeros(*batch, 0)]
    for parts, size in zip(arriving, sizes, strict=True):
        total = sum(parts[1:], parts[0]) if parts else like.new_zeros(size)
        out.append(total.expand(*batch, -1))
    return torch.cat(out, dim=-1)


class MixingBlock(NamedTuple):
    """A block of weights that maps a term of the input to a term of the output."""

    start: int  # offset of the input term in a row
    i_out: int  # output term
    shape: tuple[int, ...]  # (mul_in, mul_out) or (mul_in, scalars, mul_out)
    weight: int  # offset of the block in the weights
    factor: float  # multiplier of the weights
    scalar: int = 0  # offset of the scalars that multiply the channels


class _Part(NamedTuple):
    """A block with the indices of its pieces of rows and weights."""

    block: MixingBlock
    rows: int
    weights: int
    dim: int
    by_row: bool


class ChannelMixing:
    """Sums over channels: by Schur's lemma, all equivariant maps between irreps."""

    def __init__(
        self,
        irreps_in: Irreps,
        irreps_out: Irreps,
        blocks: Sequence[MixingBlock],
        weight_numel: int,
    ) -> None:
        self._by_irrep = irreps_out.layout == "mul_ir"
        dims = [2 * l + 1 for _, (l, _) in irreps_out]
        self._sizes = [mul * dim for (mul, _), dim in zip(irreps_out, dims, strict=True)]
        into = [[block for block in blocks if block.i_out == n] for n in range(len(dims))]
        merged = [_merge(found, dim) for found, dim in zip(into, dims, strict=True)]
        # Adjacent terms can be merged only if channels are the outer axis.
        neighbors = pairwise(_ranges(merged, dims))
        if self._by_irrep and all(start + size <= after for (start, size), (after, _) in neighbors):
            into = merged
        # Only the range of a row that blocks read is copied.
        ranges = _ranges(into, dims) or [(0, 0)]
        first, last = ranges[0][0], sum(ranges[-1])
        self._used = (first, last) if last - first < irreps_in.dim else None
        ranges = [(start - first, size) for start, size in ranges]
        self._row_sizes, rows = cut_pieces(ranges, last - first)
        weights = sorted((block.weight, prod(block.shape)) for found in into for block in found)
        self._weight_sizes, numbers = cut_pieces(weights, weight_numel)
        self._terms = [
            [
                _Part(block, rows[block.start - first], numbers[block.weight], dim, by_row)
                for block in found
                for by_row in [_scales_weights(block, dim)]
            ]
            for dim, found in zip(dims, into, strict=True)
        ]

    def __call__(
        self,
        x: Tensor,  # (rows, irreps_in.dim)
        weight: Tensor,  # (numel,), all blocks
        y: Tensor | None = None,  # (rows, scalars), if blocks have scalars
    ) -> Tensor:  # (rows, irreps_out.dim), contiguous
        """Mix channels; output terms without blocks are zero."""
        # z_wm = sum_uv W_uvw x_um y_v. Rows are transposed once, so that components and rows of a
        # term are one axis and matrix products need no further copy.
        used = x if self._used is None else x[:, slice(*self._used)]
        parts = [part for term in self._terms for part in term]
        columns: Sequence[Tensor] = ()
        if not all(part.by_row for part in parts):
            columns = used.t().contiguous().split(self._row_sizes)
        rows = used.split(self._row_sizes, 1) if any(part.by_row for part in parts) else ()
        weights = weight.split(self._weight_sizes)
        totals: list[list[Tensor]] = []  # one per term, or none
        for term in self._terms:
            total: list[Tensor] = []
            for part in term:
                piece = rows[part.rows] if part.by_row else columns[part.rows]
                mix = self._mix_rows if part.by_row else self._mix_columns
                mixed = mix(piece, weights[part.weights], y, part)
                total = [total[0] + mixed] if total else [mixed]
            totals.append(total)
        return join_sums(totals, self._sizes, x.shape[:1], x)

    def _mix_columns(self, piece: Tensor, weight: Tensor, y: Tensor | None, part: _Part) -> Tensor:
        """Mix a term (mul * dim, rows) after multiplying it by scalars."""
        mul, rows = part.block.shape[0], piece.shape[1]
        inner = part.dim if self._by_irrep else 1
        outer = () if part.dim == inner else (part.dim,)
        if y is not None:
            factors = self._scalars(y, part).t().unsqueeze(1)
            # (mul, 1, dim, rows) or (dim, mul, 1, 1, rows), times (scalars, 1, rows)
            piece = piece.reshape(*outer, mul, 1, inner, rows) * factors
            mul = mul * factors.shape[0]
        channels = piece.reshape(*outer, mul, inner * rows)
        matrix = weight.reshape(mul, part.block.shape[-1]).t()  # (mul_out, mul)
        if outer:
            mixed = _scaled_bmm(matrix.expand(part.dim, -1, -1), channels, part.block.factor)
        else:
            nothing = weight.new_zeros(1)
            mixed = torch.addmm(nothing, matrix, channels, beta=0, alpha=part.block.factor)
        return mixed.reshape(part.block.shape[-1] * part.dim, rows).t()

    def _mix_rows(self, piece: Tensor, weight: Tensor, y: Tensor | None, part: _Part) -> Tensor:
        """Mix a term (rows, mul * dim) by weights that scalars modulate per row."""
        if y is None:
            raise ValueError("expected scalars, got None")
        mul, count, mul_out = part.block.shape
        rows = piece.shape[0]
        scalars = self._scalars(y, part).expand(mul, rows, count)
        weight = weight.reshape(mul, count, mul_out)
        # One matrix (mul, mul_out) per row: sum over scalars first, then over channels.
        matrices = _scaled_bmm(scalars, weight, part.block.factor)  # (mul, rows, mul_out)
        if self._by_irrep:
            mixed = torch.bmm(matrices.permute(1, 2, 0), piece.reshape(rows, mul, part.dim))
        else:
            mixed = torch.bmm(piece.reshape(rows, part.dim, mul), matrices.transpose(0, 1))
        return mixed.reshape(rows, mul_out * part.dim)

    def _scalars(self, y: Tensor, part: _Part) -> Tensor:
        start, count = part.block.scalar, part.block.shape[1]
        return y if y.shape[1] == count else y.narrow(1, start, count)


def _scaled_bmm(one: Tensor, other: Tensor, factor: float) -> Tensor:
    # The factor is applied inside of the matrix product; beta=0 ignores the first argument.
    return torch.baddbmm(one.new_zeros(1), one, other, beta=0, alpha=factor)


def _scales_weights(block: MixingBlock, dim: int) -> bool:
    """Return whether weights per row need less memory than products of channels and scalars."""
    # Weights of a row take mul * mul_out numbers, products take mul * scalars * dim.
    return len(block.shape) == 3 and block.shape[2] <= block.shape[1] * dim


def _merge(blocks: Sequence[MixingBlock], dim: int) -> list[MixingBlock]:
    """Merge blocks that are adjacent in rows and weights and have the same output term."""
    merged: list[MixingBlock] = []
    for block in blocks:
        last = merged[-1] if merged else None
        if last is not None and block == last._replace(
            start=last.start + last.shape[0] * dim,
            weight=last.weight + prod(last.shape),
            shape=(block.shape[0], *last.shape[1:]),
        ):
            shape = (last.shape[0] + block.shape[0], *block.shape[1:])
            merged[-1] = last._replace(shape=shape)
        else:
            merged.append(block)
    return merged


def _ranges(into: Sequence[Sequence[MixingBlock]], dims: Sequence[int]) -> list[tuple[int, int]]:
    """Return the distinct ranges (start, size) of rows that blocks read."""
    return sorted(
        {
            (block.start, block.shape[0] * dim)
            for found, dim in zip(into, dims, strict=True)
            for block in found
        }
    )


class Copies(nn.Module):
    """Invariant lengths and scale factors per summand of an orthogonal representation."""

    def __init__(self, rep: Representation) -> None:
        super().__init__()
        with plain_tensors():
            if not rep.is_orthogonal():
                raise ValueError(
                    f"lengths of features need an orthogonal representation, got {rep}"
                )
            places: list[Tensor] = []
            kinds: list[bool] = []
            for part in rep.summands():
                trivial = part.rep.is_trivial()
                # Each invariant component counts as one copy.
                copies = part.positions.reshape(-1, 1) if trivial else part.positions
                places.extend(copies)
                kinds += [trivial] * len(copies)
            self.count = len(places)
            owner = torch.zeros(rep.dim, self.count, dtype=torch.float64)
            for k, positions in enumerate(places):
                owner[positions, k] = 1
            invariant = torch.tensor(kinds, dtype=torch.bool)
        self.tables = Tables(owner=owner)
        self.kinds = IndexTables(invariant=invariant)

    def squares(self, x: Tensor) -> Tensor:
        """Return the squared lengths (..., count) of features (..., rep.dim)."""
        return x.square() @ self.tables["owner", x.dtype]

    def invariants(self, x: Tensor) -> Tensor:  # (..., rep.dim) to (..., count)
        """Return trivial copies unchanged and √(1 + |x|²) - 1 for the others."""
        dtype, x = x.dtype, x.to(computed_in(x.dtype))  # squares may overflow in float16
        # Smooth at zero, unlike the length itself.
        length = (1 + self.squares(x)).sqrt() - 1
        found = torch.where(self.kinds["invariant"], x @ self.tables["owner", x.dtype], length)
        return found.to(dtype)

    def scale(self, x: Tensor, factors: Tensor) -> Tensor:
        """Multiply each copy in features (..., rep.dim) by its factor (..., count)."""
        return x * (factors @ self.tables["owner", x.dtype].mT)
