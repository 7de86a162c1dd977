"""Direct sums of irreducible representations of O(3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import index
from typing import ClassVar, Literal

import torch
from torch import Tensor

from equigeo.groups import Group, O
from equigeo.reps.direct_sum import block_diagonal
from equigeo.reps.kronecker import batched_kronecker
from equigeo.reps.representation import Representation
from equigeo.reps.so3_generators import so3_generators_table
from equigeo.reps.wigner_d import wigner_d

Term = tuple[int, tuple[int, int]]
Layout = Literal["mul_ir", "ir_mul"]


@dataclass(frozen=True, init=False, repr=False)
class Irreps(Representation):
    r"""Multiples of irreps of O(3), in the order and with the conventions of e3nn.

    The irrep of degree ``l`` and parity ``p`` has ``2 l + 1`` components ``m = -l ... l``; those
    of ``1o`` are (x, y, z). A rotation acts as :math:`D^l(R)`, the inversion as :math:`p`, hence an
    improper element as :math:`p\,D^l(-g)`.

    Parameters
    ----------
    irreps : str, e3nn.o3.Irreps, Irreps, or iterable of (int, (int, int))
        ``"16x0e + 8x1o"``, or pairs (multiplicity, (l, p)). As in e3nn, a multiplicity of one may
        be left out, zero is allowed, and ``y`` stands for the parity ``(-1)^l``.
    layout : {"mul_ir", "ir_mul"}
        Order of axes inside a term: ``(mul, 2 l + 1)`` as in e3nn, or ``(2 l + 1, mul)``.

    Attributes
    ----------
    terms : tuple of (int, (int, int))
        Multiplicity, degree and parity, neither sorted nor merged.

    Raises
    ------
    ValueError
        If the text cannot be read, a number is out of range, or the layout is unknown.
    TypeError
        If ``irreps`` is something else.

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

    def __init__(self, irreps: str | Irreps | Iterable[Term], layout: Layout = "mul_ir") -> None:
        if layout not in ("mul_ir", "ir_mul"):
            raise ValueError(f'layout must be "mul_ir" or "ir_mul", got {layout!r}')
        terms = _parse(irreps) if isinstance(irreps, str) else _collect(irreps)
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "layout", layout)
        object.__setattr__(self, "dim", sum(mul * (2 * l + 1) for mul, (l, _) in terms))

    def __iter__(self) -> Iterator[Term]:
        """Iterate over (multiplicity, (l, p)), which ``e3nn.o3.Irreps`` accepts."""
        return iter(self.terms)

    def __str__(self) -> str:
        """Return the text that e3nn reads too."""
        return "+".join(f"{mul}x{l}{'e' if p > 0 else 'o'}" for mul, (l, p) in self.terms)

    def __repr__(self) -> str:
        """Return the expression that makes this value."""
        layout = "" if self.layout == "mul_ir" else f", layout={self.layout!r}"
        return f"Irreps({str(self)!r}{layout})"

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        """Apply elements of O(3) to features, irrep by irrep.

        No matrix is larger than ``2 l + 1``, whatever the multiplicities.

        Parameters
        ----------
        g : Tensor, (..., 3, 3), floating
            Rotations and rotoreflections.
        x : Tensor, (..., dim), floating
            Features in ``layout``; batch axes broadcast with those of ``g``.

        Returns
        -------
        Tensor, (..., dim), dtype of ``x``
            The moved features.

        Raises
        ------
        ValueError
            If ``g`` or ``x`` has the wrong shape.
        """
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
        """Dense matrices of the action; prefer :meth:`act` for many multiplicities.

        Parameters
        ----------
        g : Tensor, (..., 3, 3), floating
            Rotations and rotoreflections.

        Returns
        -------
        Tensor, (..., dim, dim), dtype of ``g``
            Orthogonal matrices, computed in float64.

        Raises
        ------
        ValueError
            If ``g`` has the wrong shape.
        """
        matrices = self._blocks(g.double())
        empty = g.new_zeros(*g.shape[:-2], 0, 0, dtype=torch.float64)
        return self._assemble(empty, matrices).to(g.dtype)

    def algebra(self, x: Tensor) -> Tensor:
        """Derivative of :meth:`matrix` at the identity.

        Parameters
        ----------
        x : Tensor, (..., 3, 3), floating
            Skew matrices.

        Returns
        -------
        Tensor, (..., dim, dim), dtype of ``x``
            Skew matrices.

        Raises
        ------
        ValueError
            If ``x`` has the wrong shape.
        """
        self.group.check_shape(x)
        omega = torch.stack([x[..., 2, 1], x[..., 0, 2], x[..., 1, 0]], -1)
        blocks = {
            (l, p): torch.einsum("...i,ijk->...jk", omega, so3_generators_table(l).to(x))
            for _, (l, p) in self.terms
        }
        return self._assemble(x.new_zeros(*x.shape[:-2], 0, 0), blocks)

    def is_trivial(self) -> bool:
        """Tell whether there are scalars ``0e`` only.

        Returns
        -------
        bool
            True also where nothing is left.
        """
        return all(mul == 0 or ir == (0, 1) for mul, ir in self.terms)

    def dual(self) -> Irreps:
        """Return the representation itself, for it is orthogonal.

        Returns
        -------
        Irreps
            Equal to this one.
        """
        return self

    def merged(self, other: Representation) -> Irreps | None:
        """Return the direct sum as Irreps where the layouts agree.

        Parameters
        ----------
        other : Representation
            The right neighbour in a sum.

        Returns
        -------
        Irreps or None
            The terms of both.
        """
        if isinstance(other, Irreps) and other.layout == self.layout:
            return Irreps(self.terms + other.terms, self.layout)
        return None

    def _split(self, x: Tensor) -> tuple[Tensor, ...]:
        return x.split([mul * (2 * l + 1) for mul, (l, _) in self.terms], dim=-1)

    def _blocks(self, g: Tensor) -> dict[tuple[int, int], Tensor]:
        """Matrices (..., 2l+1, 2l+1) of every irrep that occurs."""
        self.group.check_shape(g)
        improper = (torch.linalg.det(g) < 0)[..., None, None]
        rotation = torch.where(improper, -g, g)
        degrees = {l for _, (l, _) in self.terms}
        rotations = {l: wigner_d(l, rotation) for l in degrees}
        return {
            (l, p): torch.where(improper, p * rotations[l], rotations[l])
            for _, (l, p) in self.terms
        }

    def _assemble(self, empty: Tensor, blocks: dict[tuple[int, int], Tensor]) -> Tensor:
        """Block-diagonal matrices in the declared layout; ``empty`` carries the batch axes."""
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
