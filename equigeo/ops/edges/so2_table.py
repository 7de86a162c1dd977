"""Terms of a convolution by orders, and the layout of its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LARGEST_SO2_DEGREE = 10
"""Of the terms; the largest whose rotations are tested in single precision."""

Term = tuple[int, int, bool]
"""Copies, degree, and whether the two components of an order are read as (-m, +m), below."""


@dataclass(frozen=True)
class SO2Table:
    """Layout of the input and output terms of :func:`equigeo.ops.so2_conv`.

    Rows are terms one after another, each with its ``2 l + 1`` components outside and its copies
    inside (``ir_mul``). In the frame of an edge the components +m and -m of every copy of degree at
    least m are the real and the imaginary part of one complex number. A term that is ``swapped`` is
    multiplied by i there: natural and pseudo irreps of O(3) then have real matrices between them.

    Parameters
    ----------
    terms_in, terms_out : tuple of (int, int, bool)
        Copies, degree and whether it is swapped.
    mmax : int
        Largest order; at most the largest degrees of both sides.
    complex_weights : bool
        Whether orders above 0 have a second matrix, for the imaginary parts.
    by_order : bool
        Whether modulation has one number per order of each copy, else one per copy.

    Examples
    --------
    >>> table = SO2Table(((8, 0, False), (4, 1, False)), ((2, 1, False),), mmax=1)
    >>> table.dim_in, table.dim_out, table.weight_numel, table.scale_numel
    (20, 6, 40, 16)
    """

    terms_in: tuple[Term, ...]
    terms_out: tuple[Term, ...]
    mmax: int
    complex_weights: bool = True
    by_order: bool = True

    def __post_init__(self) -> None:
        for mul, l, _ in (*self.terms_in, *self.terms_out):
            if mul < 0 or not 0 <= l <= LARGEST_SO2_DEGREE:
                raise ValueError(
                    "terms must have copies that are not negative and degrees up to "
                    f"{LARGEST_SO2_DEGREE}, got {mul} of {l}"
                )
        sides = self.terms_in, self.terms_out
        largest = [max((l for mul, l, _ in terms if mul), default=0) for terms in sides]
        if not 0 <= self.mmax <= min(largest):
            raise ValueError(
                f"mmax must be from 0 to the degrees of both sides, {largest[0]} and "
                f"{largest[1]}, got {self.mmax}"
            )

    @classmethod
    def from_ints(
        cls, terms_in: Sequence[int], terms_out: Sequence[int], mmax: int, **flags: bool
    ) -> SO2Table:
        """Build a table from the integer arguments of the op, three numbers per term."""
        sides = []
        for flat in (terms_in, terms_out):
            triples = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
            sides.append(tuple((mul, l, bool(swapped)) for mul, l, swapped in triples))
        return cls(sides[0], sides[1], mmax, **flags)

    @property
    def flat_terms(self) -> tuple[list[int], list[int]]:
        """Flatten the terms into the integer arguments of the op."""
        flat = [
            [int(number) for term in terms for number in term]
            for terms in (self.terms_in, self.terms_out)
        ]
        return flat[0], flat[1]

    @property
    def lmax(self) -> int:
        """Largest degree of all terms, including terms of multiplicity zero."""
        return max((l for _, l, _ in (*self.terms_in, *self.terms_out)), default=0)

    @property
    def dim_in(self) -> int:
        """Number of components per input row."""
        return sum(mul * (2 * l + 1) for mul, l, _ in self.terms_in)

    @property
    def dim_out(self) -> int:
        """Number of components per output row."""
        return sum(mul * (2 * l + 1) for mul, l, _ in self.terms_out)

    @property
    def widths_in(self) -> tuple[int, ...]:
        """Copies of degree at least m in the input, by order."""
        return tuple(_copies(self.terms_in, m) for m in range(self.mmax + 1))

    @property
    def widths_out(self) -> tuple[int, ...]:
        """Copies of degree at least m in the output, by order."""
        return tuple(_copies(self.terms_out, m) for m in range(self.mmax + 1))

    @property
    def matrices(self) -> list[tuple[int, int, int]]:
        """Order, rows and columns of all matrices, in the order of the weights."""
        shapes = zip(range(self.mmax + 1), self.widths_out, self.widths_in, strict=True)
        return [
            shape for shape in shapes for _ in range(1 + (self.complex_weights and shape[0] > 0))
        ]

    @property
    def weight_numel(self) -> int:
        """Number of elements of all matrices."""
        return sum(rows * columns for _, rows, columns in self.matrices)

    @property
    def scale_numel(self) -> int:
        """Number of modulation factors per edge."""
        return sum(self.widths_in) if self.by_order else self.widths_in[0]


def _copies(terms: Sequence[Term], order: int) -> int:
    return sum(mul for mul, l, _ in terms if l >= order)
