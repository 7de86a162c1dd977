"""Radial networks as splines of the distance, for models whose weights do not change."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise, starmap
from threading import Lock
from typing import Any, Final

import torch
from torch import Tensor, nn

from equigeo._core.cache import kept
from equigeo._core.tensors import check_in_program, in_batch, plain_tensors, recording
from equigeo.nn.module import kept_in_float64
from equigeo.ops.products.spline_conv import spline_weights

_DEGREE: Final = {torch.float32: 5, torch.float64: 9}  # of the splines
# Largest relative errors between knots of values and of derivatives. In float64, the rounding of
# values alone changes derivatives by about 2e-12.
_TOLERANCE: Final = {torch.float32: (1e-7, 1e-7), torch.float64: (1e-12, 1e-11)}
_PIECES: Final = (64, 96, 128, 192, 256, 384, 512, 768, 1024)
_MOST_BYTES: Final = 2**29  # of one table with several kinds
_MULTIPLE: Final = 16  # of columns, so that kernels read them in place
_GROWING: Final = Lock()
_TOO_SHORT: Final = (
    "edges of a compiled frozen model must not be shorter than {:.2g} of the cutoff: call the "
    "model without compiling it, or equigeo.interop.restore(model) before"
)


class RadialTable(nn.Module):
    """Functions of the distance as splines, smooth between given breaks, of one or more kinds."""

    # Pieces have equal lengths in the square root of the distance, or in the distance if they begin
    # at zero: functions are steeper at short distances.

    basis: Tensor  # (degree + 1, degree), of powers and functions
    coefficients: Tensor  # (2, rows, columns), the first of a piece, and differences
    segments: Tensor  # (kinds, segments, 4) float64: start, pieces per length, pieces, first row
    breaks: Tensor  # (segments - 1,) float64

    def __init__(
        self,
        coefficients: Sequence[Tensor],  # (pieces + degree, values), float64, of each segment
        ends: Sequence[float],  # of the segments
        dtype: torch.dtype,
        error: float,
    ) -> None:
        super().__init__()
        degree = _DEGREE[dtype]
        self.start, self.end = ends[0], ends[-1]
        self.error, self.values = error, coefficients[0].shape[1]
        self.message = _TOO_SHORT.format(ends[0] / ends[-1])  # torch.compile cannot format it
        rows = [len(each) - 1 for each in coefficients]
        self.pieces = sum(rows) - (degree - 1) * len(rows)
        columns = -(-self.values // _MULTIPLE) * _MULTIPLE
        found = torch.cat([_steps(each) for each in coefficients], 1)
        padded = nn.functional.pad(found, (0, columns - self.values))
        segments = [
            (start, (n - degree + 1) / (end - start), n - degree + 1, sum(rows[:k]))
            for k, ((start, end), n) in enumerate(zip(pairwise(_scaled(ends)), rows, strict=True))
        ]
        self.register_buffer("coefficients", padded.to(dtype), persistent=False)
        self.register_buffer("basis", basis_matrix(degree).to(dtype), persistent=False)
        for name, value in (("segments", [segments]), ("breaks", ends[1:-1])):
            self.register_buffer(name, torch.tensor(value, dtype=torch.float64), persistent=False)

    @classmethod
    def fit(
        cls,
        function: Callable[[Tensor], Tensor],  # of distances (n,) to (n, values), in float64
        ends: Sequence[float],  # two distances, and those between where the function is not smooth
        dtype: torch.dtype,  # of the table
        pieces: int = 0,  # to start with
    ) -> RadialTable:
        """Add pieces until values and derivatives are exact, or raise ``ValueError`` at 1,024."""
        parts = [(function, part, ends[0] > 0, dtype, pieces) for part in pairwise(_scaled(ends))]
        found, errors = zip(*starmap(_fit, parts), strict=True)
        return cls(found, ends, dtype, max(errors))

    def append(self, others: Sequence[RadialTable]) -> None:
        """Add the kinds of other tables with the same ends and number of functions."""
        rows = self.coefficients.shape[1]
        for other in others:
            segments = other.segments.to(self.segments.device, copy=True)
            segments[..., 3] += rows
            rows += other.coefficients.shape[1]
            self.segments = torch.cat([self.segments, segments])
            self.pieces, self.error = self.pieces + other.pieces, max(self.error, other.error)
        added = [other.coefficients.to(self.coefficients) for other in others]
        self.coefficients = torch.cat([self.coefficients, *added], 1)

    def covers(self, lengths: Tensor, kinds: Tensor | None = None) -> bool:
        """Return whether all are tabulated; for one kind, a recorded program checks it instead."""
        # Longer distances have the values of the end, and negative kinds none. In a wider dtype
        # than it was made for, or a half, a table is less exact than the network.
        if _DEGREE.get(self.coefficients.dtype, len(self.basis)) >= len(self.basis):
            return False
        if in_batch(lengths):
            return False
        if recording():
            if kinds is None:
                check_in_program((lengths.detach() >= self.start).all(), self.message)
            return kinds is None
        if lengths.is_meta or not lengths.numel():
            return kinds is None
        least = lengths.detach().amin() >= self.start
        return bool(least if kinds is None else least & (kinds.amin() >= 0))

    def spline(
        self,
        lengths: Tensor,  # (edges,)
        kinds: Tensor | None = None,  # (edges,), by default all of the first kind
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the position in its piece, first row, basis and coefficients per edge."""
        # In float32, the number of the piece would take digits of the position in it.
        wide = lengths.double().clamp(self.start, self.end)
        segment = self.segments[0 if kinds is None else kinds.long()]
        if len(self.breaks):
            place = torch.bucketize(wide.detach(), self.breaks, right=True)
            segment = segment.expand(len(wide), -1, -1)
            segment = segment.gather(1, place[:, None, None].expand(-1, 1, 4))
        start, scale, pieces, row = segment[..., 0, :].unbind(-1)
        place = ((wide.sqrt() if self.start > 0 else wide) - start) * scale
        # A NaN is a position in some piece.
        piece = place.detach().nan_to_num(0).floor().clamp(min=0).minimum(pieces - 1)
        position = (place - piece).to(self.coefficients.dtype)
        return position, (piece + row).long(), self.basis, self.coefficients

    def forward(self, lengths: Tensor, kinds: Tensor | None = None) -> Tensor:
        """Return the values (edges, values) at distances (edges,)."""
        return spline_weights(*self.spline(lengths, kinds))[:, : self.values]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Move to devices and dtypes, but keep the places of pieces in float64."""
        with kept_in_float64(self, "segments", "breaks"):
            return super()._apply(fn, recurse)

    def extra_repr(self) -> str:
        return f"{self.values} functions, {self.pieces} pieces, error {self.error:.0e}"


class RadialTables(nn.Module):
    """Functions of the distance and a number, each fitted when its number first occurs."""

    kinds: Tensor  # (numbers,), of the table, -1 for a number that is not tabulated

    def __init__(
        self,
        function: Callable[[Tensor, Tensor], Tensor],  # of distances and numbers, float64, CPU
        ends: Sequence[float],
        dtype: torch.dtype,
        numbers: int,
    ) -> None:
        super().__init__()
        self.function, self.ends, self.dtype = function, tuple(ends), dtype
        self.table = self._fit(0, 0)  # raises for functions that splines do not approximate
        kinds = torch.full((numbers,), -1)
        kinds[0] = 0
        self.register_buffer("kinds", kinds, persistent=False)

    def _fit(self, number: int, pieces: int) -> RadialTable:
        def function(lengths: Tensor) -> Tensor:
            return self.function(lengths, torch.full_like(lengths, number, dtype=torch.int64))

        return RadialTable.fit(function, self.ends, self.dtype, pieces)

    @plain_tensors()
    def grow(self, numbers: Sequence[int]) -> None:
        """Tabulate numbers, except where splines need too many pieces or tables too much memory."""
        with _GROWING:
            added: dict[int, RadialTable] = {}
            least, first = int(self.table.segments[0, :, 2].min()), len(self.table.segments)
            for number in numbers:
                tables = [self.table, *added.values()]
                if sum(each.coefficients.nbytes for each in tables) > _MOST_BYTES:
                    warnings.warn(
                        f"{first + len(added)} tables of a radial network take more than "
                        f"{_MOST_BYTES >> 20} MiB: it is evaluated for other pairs of species",
                        stacklevel=2,
                    )
                    break
                if self.kinds[number] < 0:
                    with suppress(ValueError):
                        added[number] = self._fit(number, least)
            self.table.append(list(added.values()))
            # Last: other threads may read, and fits may be interrupted.
            for kind, number in enumerate(added, first):
                self.kinds[number] = kind

    def covers(self, lengths: Tensor, numbers: Tensor) -> bool:
        """Return whether all distances and numbers are tabulated."""
        return self.table.covers(lengths, self.kinds[numbers.long()])

    def spline(self, lengths: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the position in its piece, first row, basis and coefficients per edge."""
        return self.table.spline(lengths, self.kinds[numbers.long()])

    def forward(self, lengths: Tensor, numbers: Tensor) -> Tensor:
        """Return the values (edges, values)."""
        return self.table(lengths, self.kinds[numbers.long()])


def _scaled(ends: Sequence[float]) -> list[float]:
    """Return the ends of segments where pieces have equal lengths."""
    return [math.sqrt(end) if ends[0] > 0 else end for end in ends]


def _fit(
    function: Callable[[Tensor], Tensor],
    interval: tuple[float, float],
    by_root: bool,  # the interval is of square roots of distances
    dtype: torch.dtype,
    least: float,  # number of pieces
) -> tuple[Tensor, float]:
    """Return the coefficients (pieces + degree, values) of one segment, and their error."""
    degree = _DEGREE[dtype]
    for pieces in _PIECES:
        if pieces < least:
            continue
        found = _interpolate(function, interval, by_root, pieces, degree)
        value, slope = _errors(function, found, interval, by_root, degree)
        if value < _TOLERANCE[dtype][0] and slope < _TOLERANCE[dtype][1]:
            return found, value
        # Errors of splines decrease with this power of the length of a piece.
        least = pieces * min(1.4, (slope / _TOLERANCE[dtype][1] / 10) ** (1 / (degree + 1)))
    raise ValueError(
        f"splines of {_PIECES[-1]} pieces have errors of {value:.0e} and in derivatives of "
        f"{slope:.0e}, at most {_TOLERANCE[dtype][0]:.0e} and {_TOLERANCE[dtype][1]:.0e} are "
        "allowed"
    )


def basis_matrix(degree: int) -> Tensor:  # (degree + 1, degree), float64
    """Return sums of uniform B-splines of a piece: row k has the factors of t^k, 0 <= t <= 1."""
    pieces = torch.ones(1, 1, dtype=torch.float64)  # (piece, power) of one B-spline
    for p in range(1, degree + 1):
        # N_p(x) = (x N_{p-1}(x) + (p + 1 - x) N_{p-1}(x - 1)) / p, with x = piece + t.
        found = torch.zeros(p + 1, p + 1, dtype=torch.float64)
        for m in range(p):
            found[m, :p] += m * pieces[m]
            found[m, 1:] += pieces[m]
            found[m + 1, :p] += (p - m) * pieces[m]
            found[m + 1, 1:] -= pieces[m]
        pieces = found / p
    # Function n is the sum of the B-splines behind n, whose coefficients contain difference n.
    return pieces.cumsum(0)[:-1].flip(0).T.contiguous()


def _spline(place: Tensor, coefficients: Tensor, degree: int, order: int = 0) -> Tensor:
    """Evaluate (n,) places, in pieces from the start, to (n, values), in float64."""
    first = place.long().clamp(0, len(coefficients) - degree - 1)
    basis = basis_matrix(degree)
    return spline_weights(place - first, first, basis, _steps(coefficients), order=order)


def _steps(coefficients: Tensor) -> Tensor:  # (rows, values) to (2, rows - 1, values)
    """Return coefficients and their differences."""
    return torch.stack([coefficients[:-1], coefficients.diff(dim=0)])


def _interpolate(
    function: Callable[[Tensor], Tensor],
    interval: tuple[float, float],
    by_root: bool,
    pieces: int,
    degree: int,
) -> Tensor:  # (pieces + degree, values)
    """Return the spline through the values at all knots and, dense at the ends, some more."""
    places, *factors = _equations(pieces, degree)
    start, end = interval
    scaled = start + (end - start) / pieces * places
    with torch.no_grad():
        values = function(scaled.square() if by_root else scaled)
    return torch.linalg.lu_solve(*factors, values)


@kept
def _equations(pieces: int, degree: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return places of values, and factors of the matrix from coefficients to them."""
    count = (degree - 1) // 2
    angles = (torch.arange(count, dtype=torch.float64) + 0.5) * (math.pi / 2 / count)
    extra = count * (1 - angles.cos())  # Chebyshev points: uniform ones amplify rounding
    knots = torch.arange(pieces + 1, dtype=torch.float64)
    places = torch.cat([knots, extra, pieces - extra]).sort().values
    matrix = _spline(places, torch.eye(pieces + degree, dtype=torch.float64), degree)
    return places, *torch.linalg.lu_factor(matrix)


def _errors(
    function: Callable[[Tensor], Tensor],
    coefficients: Tensor,  # (pieces + degree, values)
    interval: tuple[float, float],
    by_root: bool,
    degree: int,
) -> list[float]:
    """Return the largest relative errors between knots, of values and of derivatives."""
    start, end = interval
    pieces = len(coefficients) - degree
    step = (end - start) / pieces
    between = torch.tensor([0.2, 0.5, 0.8], dtype=torch.float64)
    places = (torch.arange(pieces)[:, None] + between).flatten()
    scaled = start + step * places
    lengths = scaled.square() if by_root else scaled
    slope = 1 / (2 * step * scaled) if by_root else torch.full_like(scaled, 1 / step)

    exact = torch.autograd.functional.jvp(function, lengths, torch.ones_like(lengths))
    found = [_spline(places, coefficients, degree, order) for order in range(2)]
    found[1] = found[1] * slope[:, None]
    near = lengths < (end**2 if by_root else end) / 2
    return [_error(a, b, near) for a, b in zip(found, exact, strict=True)]


def _error(found: Tensor, exact: Tensor, near: Tensor) -> float:
    """Return the largest error of values (n, values) relative to those from there on."""
    # Values are largest at distances that hardly occur, and vanish at the cutoff: in the outer half
    # the largest one of that half counts.
    largest = exact.abs().amax(1)
    scale = largest.flip(0).cummax(0).values.flip(0)
    scale = torch.where(near, scale, largest[~near].max()).clamp_min(torch.finfo(exact.dtype).tiny)
    return float(((found - exact).abs().amax(1) / scale).max())
