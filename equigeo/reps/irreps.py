"""Irreducible representations of O(3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from operator import index
from typing import ClassVar, Literal

import torch
from torch import Tensor

from equigeo.groups import Group, O
from equigeo.reps.representation import Representation, Summand, batched_kronecker, block_diagonal
from equigeo.reps.wigner import so3_generators_table, wigner_d

Irrep = tuple[int, int]  # degree and parity
Term = tuple[int, Irrep]  # multiplicity and irrep
Layout = Literal["mul_ir", "ir_mul"]


@dataclass(frozen=True, init=False, repr=False)
class Irreps(Representation):
    r"""Multiples of irreps of O(3), in the order and with the conventions of e3nn.

    The irrep of degree ``l`` and parity ``p`` has ``2 l + 1`` components ``m = -l ... l``; those of
    ``1o`` are (x, y, z). A rotation acts as :math:`D^l(R)`, the inversion as :math:`p`, hence an
    improper element as :math:`p\,D^l(-g)`.

    Parameters
    ----------
    irreps : str, e3nn.o3.Irreps, Irreps, or iterable of (int, (int, int))
        ``"16x0e + 8x1o"``, or pairs (multiplicity, (l, p)). As in e3nn, a multiplicity of one is
        optional, zero is allowed, and ``y`` stands for the parity ``(-1)^l``.
    layout : {"mul_ir", "ir_mul"}, optional
        Order of axes inside a term: ``(mul, 2 l + 1)`` as in e3nn, or ``(2 l + 1, mul)``. By
        default that of given Irreps, and ``mul_ir`` otherwise. Irreps of another layout raise
        ``ValueError``: see :meth:`with_layout`.

    Attributes
    ----------
    terms : tuple of (int, (int, int))
        Multiplicity, degree and parity, neither sorted nor merged.

    Examples
    --------
    >>> irreps = Irreps("16x0e + 8x1o")
    >>> irreps.dim, str(irreps), irreps == Irreps([(16, (0, 1)), (8, (1, -1))])
    (40, '16x0e+8x1o', True)
    >>> mirror = torch.diag(torch.tensor([-1.0, 1.0, 1.0]))
    >>> Irreps("0o + 1o").act(mirror, torch.ones(4)).round(decimals=6)
    tensor([-1., -1.,  1.,  1.])
    """

    terms: tuple[Term, ...]
    layout: Layout
    dim: int = field(repr=False, compare=False)
    group: ClassVar[Group] = O(3)  # type: ignore[misc]

    def __init__(self, irreps: str | Irreps | Iterable[Term], layout: Layout | None = None) -> None:
        own: Layout | None = irreps.layout if isinstance(irreps, Irreps) else None
        layout = own or "mul_ir" if layout is None else layout
        if layout not in ("mul_ir", "ir_mul"):
            raise ValueError(f'layout must be "mul_ir" or "ir_mul", got {layout!r}')
        if own not in (None, layout):
            raise ValueError(f"irreps has the layout {own!r}, not {layout!r}: see with_layout")
        terms = _parse(irreps) if isinstance(irreps, str) else _collect(irreps)
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "layout", layout)
        object.__setattr__(self, "dim", sum(mul * (2 * l + 1) for mul, (l, _) in terms))

    def __iter__(self) -> Iterator[Term]:
        return iter(self.terms)

    def __str__(self) -> str:
        return "+".join(f"{mul}x{l}{'e' if p > 0 else 'o'}" for mul, (l, p) in self.terms)

    def __repr__(self) -> str:
        layout = "" if self.layout == "mul_ir" else f", layout={self.layout!r}"
        return f"Irreps({str(self)!r}{layout})"

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        self.check_features(x)
        matrices = self._blocks(g.double())
        batch = torch.broadcast_shapes(g.shape[:-2], x.shape[:-1])
        moved = [x.new_zeros(*batch, 0)]
        for (mul, ir), piece in zip(self.terms, self._split(x), strict=True):
            d = matrices[ir].to(x.dtype)
            if self.layout == "mul_ir":
                piece = piece.unflatten(-1, (mul, d.shape[-1])) @ d.mT
            else:
                piece = d @ piece.unflatten(-1, (d.shape[-1], mul))
            moved.append(piece.flatten(-2))
        return torch.cat(moved, dim=-1)

    def matrix(self, g: Tensor) -> Tensor:
        matrices = self._blocks(g.double())
        empty = g.new_zeros(*g.shape[:-2], 0, 0, dtype=torch.float64)
        return self._assemble(empty, matrices).to(g.dtype)

    def algebra(self, x: Tensor) -> Tensor:
        self.group.check_shape(x)
        omega = torch.stack([x[..., 2, 1], x[..., 0, 2], x[..., 1, 0]], -1)
        blocks = {
            (l, p): torch.einsum("...i,ijk->...jk", omega, so3_generators_table(l).to(x))
            for _, (l, p) in self.terms
        }
        return self._assemble(x.new_zeros(*x.shape[:-2], 0, 0), blocks)

    def is_trivial(self) -> bool:
        return all(mul == 0 or ir == (0, 1) for mul, ir in self.terms)

    def is_orthogonal(self) -> bool:
        return True

    def summands(self) -> tuple[Summand, ...]:
        found = []
        for (mul, ir), place in zip(self.terms, self.slices(), strict=True):
            positions = torch.arange(place.start, place.stop)
            if self.layout == "mul_ir":
                positions = positions.view(mul, 2 * ir[0] + 1)
            else:
                positions = positions.view(2 * ir[0] + 1, mul).mT
            if mul:
                found.append(Summand(Irreps([(1, ir)]), positions))
        return tuple(found)

    def dual(self) -> Irreps:
        return self

    def merged(self, other: Representation) -> Irreps | None:
        if isinstance(other, Irreps) and other.layout == self.layout:
            return Irreps(self.terms + other.terms, self.layout)
        return None

    @classmethod
    def signal(cls, lmax: int, parity: int = 1) -> Irreps:
        """Return the irreps of a function on the sphere, one per degree up to ``lmax``.

        The component of degree l and order m has index ``l^2 + l + m``. Values of parity 1 have
        ``0e+1o+2e+...``, those of parity -1 the pseudo ``0o+1e+2o+...``.

        Examples
        --------
        >>> str(Irreps.signal(2)), str(Irreps.signal(1, parity=-1))
        ('1x0e+1x1o+1x2e', '1x0o+1x1e')
        """
        if lmax < 0 or parity not in (1, -1):
            raise ValueError(f"lmax must be >= 0 and parity 1 or -1, got {lmax} and {parity}")
        return cls([(1, (l, parity * (-1) ** l)) for l in range(lmax + 1)])

    def slices(self) -> tuple[slice, ...]:
        """Return the slices of the terms on the feature axis.

        Examples
        --------
        >>> Irreps("2x0e + 1o").slices()
        (slice(0, 2, None), slice(2, 5, None))
        """
        ends = [0, *accumulate(mul * (2 * l + 1) for mul, (l, _) in self.terms)]
        return tuple(slice(start, end) for start, end in pairwise(ends))

    def simplify(self) -> Irreps:
        """Merge adjacent terms of one irrep and drop terms of multiplicity zero, as e3nn does.

        Components keep their order in the layout ``mul_ir``.

        Examples
        --------
        >>> str(Irreps("0e + 2x0e + 0x1o + 1o").simplify())
        '3x0e+1x1o'
        """
        out: list[Term] = []
        for mul, ir in self.terms:
            if out and out[-1][1] == ir:
                out[-1] = (out[-1][0] + mul, ir)
            elif mul > 0:
                out.append((mul, ir))
        return Irreps(out, self.layout)

    def sort(self) -> tuple[Irreps, tuple[int, ...]]:
        """Sort terms by degree, odd before even, keeping the order among equals.

        Returns the sorted terms, not merged, and the old position of each (the ``inv`` of e3nn).

        Examples
        --------
        >>> irreps, order = Irreps("1o + 0e + 0o").sort()
        >>> str(irreps), order
        ('1x0o+1x0e+1x1o', (2, 1, 0))
        """
        order = tuple(sorted(range(len(self.terms)), key=lambda k: self.terms[k][1]))
        return Irreps([self.terms[k] for k in order], self.layout), order

    def with_layout(self, layout: Layout) -> Irreps:
        """Return the same terms in another layout."""
        return Irreps(self.terms, layout)

    def to_layout(self, x: Tensor, layout: Layout) -> Tensor:
        """Rearrange features (..., dim) to another layout, term by term.

        Returns ``x`` itself if nothing changes.

        Examples
        --------
        >>> Irreps("2x0e + 3x1o").to_layout(torch.arange(11), "ir_mul").tolist()
        [0, 1, 2, 5, 8, 3, 6, 9, 4, 7, 10]
        """
        self.check_features(x)
        if self.with_layout(layout) == self:
            return x
        out = [x[..., :0]]
        for (mul, (l, _)), piece in zip(self.terms, self._split(x), strict=True):
            shape = (mul, 2 * l + 1) if self.layout == "mul_ir" else (2 * l + 1, mul)
            out.append(piece.unflatten(-1, shape).mT.flatten(-2))
        return torch.cat(out, dim=-1)

    def _split(self, x: Tensor) -> tuple[Tensor, ...]:
        return x.split([mul * (2 * l + 1) for mul, (l, _) in self.terms], dim=-1)

    def _blocks(self, g: Tensor) -> dict[tuple[int, int], Tensor]:
        """Return matrices (..., 2l+1, 2l+1) of every irrep that occurs."""
        self.group.check_shape(g)
        # an improper g is the inversion times the rotation -g, and the inversion acts as p
        improper = (torch.linalg.det(g) < 0)[..., None, None]
        rotation = torch.where(improper, -g, g)
        degrees = {l for _, (l, _) in self.terms}
        rotations = {l: wigner_d(l, rotation) for l in degrees}
        return {
            (l, p): torch.where(improper, p * rotations[l], rotations[l])
            for _, (l, p) in self.terms
        }

    def _assemble(self, empty: Tensor, blocks: dict[tuple[int, int], Tensor]) -> Tensor:
        """Return block-diagonal matrices in the layout; ``empty`` carries the batch axes."""
        out = [empty]
        for mul, ir in self.terms:
            block, copies = blocks[ir], torch.eye(mul).to(blocks[ir])
            pair = (copies, block) if self.layout == "mul_ir" else (block, copies)
            out.append(batched_kronecker(*pair))
        return block_diagonal(out)


_TERM = re.compile(r"(?:(?P<mul>\d+)\s*x\s*)?(?P<l>\d+)(?P<p>[eoy])")


def _parse(text: str) -> tuple[Term, ...]:
    if not text.strip():
        return ()
    terms: list[Term] = []
    for part in text.split("+"):
        match = _TERM.fullmatch(part.strip())
        if match is None:
            raise ValueError(
                f'irreps {text!r} cannot be read at {part.strip()!r}: expected terms like "16x0e" '
                'or "1o", joined by "+"'
            )
        l = int(match["l"])
        p = {"e": 1, "o": -1, "y": (-1) ** l}[match["p"]]
        terms.append((int(match["mul"] or 1), (l, p)))
    return tuple(terms)


def _collect(irreps: Iterable[Term]) -> tuple[Term, ...]:
    try:
        terms = tuple((index(mul), (index(l), index(p))) for mul, (l, p) in irreps)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"irreps must be text, Irreps or pairs (mul, (l, p)), got {irreps!r}"
        ) from error
    for mul, (l, p) in terms:
        if mul < 0 or l < 0 or p not in (1, -1):
            raise ValueError(f"irreps need mul >= 0, l >= 0 and p of 1 or -1, got {mul, (l, p)}")
    return terms
