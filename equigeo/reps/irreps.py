"""Irreducible representations of O(3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, filterfalse, pairwise
from operator import index
from typing import Any, ClassVar, Literal, NamedTuple, SupportsIndex, overload

import torch
from torch import Tensor

from equigeo.groups import Group, O
from equigeo.reps.representation import Representation, Summand, batched_kronecker, block_diagonal
from equigeo.reps.wigner import so3_generators_table, wigner_d

Layout = Literal["mul_ir", "ir_mul"]


class Irrep(NamedTuple):
    """Degree and parity; ``ir1 * ir2`` lists the irreps of the product, ``+`` makes ``Irreps``."""

    l: int
    p: int

    @property
    def dim(self) -> int:
        return 2 * self.l + 1

    def __repr__(self) -> str:
        return f"{self.l}{'e' if self.p > 0 else 'o'}"

    def __mul__(self, other: Any) -> Any:
        l, p = _single(other)
        return [Irrep(k, self.p * p) for k in range(abs(self.l - l), self.l + l + 1)]

    def __rmul__(self, copies: SupportsIndex) -> Any:
        return Irreps([(index(copies), self)])

    def __add__(self, other: Any) -> Any:
        return Irreps([(1, self), (1, _single(other))])


class MulIr(NamedTuple):
    """Multiplicity and irrep, a term of ``Irreps``."""

    mul: int
    ir: Irrep

    @property
    def dim(self) -> int:
        return self.mul * self.ir.dim

    def __repr__(self) -> str:
        return f"{self.mul}x{self.ir}"


Term = tuple[int, tuple[int, int]]  # MulIr as users write it
Selection = str | Iterable[Any] | Callable[[MulIr], object] | None


@dataclass(frozen=True, init=False, repr=False)
class Irreps(Representation):
    r"""Multiples of irreps of O(3), in the order and with the conventions of e3nn.

    As in e3nn, this is a container. Iteration and integer indices return named tuples ``(mul, ir)``
    of a multiplicity and an irrep ``(l, p)``, both with the attribute ``dim``; slices return
    ``Irreps``; ``"1o" in irreps`` looks for an irrep. In the layout ``mul_ir``, Irreps are equal to
    text, to tuples and to ``e3nn.o3.Irreps`` of the same terms, and have the hash of the tuple.
    ``irreps + "1o"`` appends terms, ``2 * irreps`` repeats them.

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
    terms : tuple of (mul, ir)
        Multiplicity and irrep ``(l, p)``, neither sorted nor merged.

    Examples
    --------
    >>> irreps = Irreps("16x0e + 8x1o")
    >>> irreps.dim, str(irreps), irreps == Irreps([(16, (0, 1)), (8, (1, -1))])
    (40, '16x0e+8x1o', True)
    >>> irreps[1].ir.l, irreps[:1], "1o" in irreps, irreps == "16x0e + 8x1o"
    (1, Irreps('16x0e'), True, True)
    >>> mirror = torch.diag(torch.tensor([-1.0, 1.0, 1.0]))
    >>> Irreps("0o + 1o").act(mirror, torch.ones(4)).round(decimals=6)
    tensor([-1., -1.,  1.,  1.])
    """

    terms: tuple[MulIr, ...]
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
        if isinstance(irreps, Irreps):
            terms = irreps.terms
        else:
            terms = _parse(irreps) if isinstance(irreps, str) else _collect(irreps)
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "layout", layout)
        object.__setattr__(self, "dim", sum(mul * (2 * l + 1) for mul, (l, _) in terms))

    def __len__(self) -> int:
        return len(self.terms)

    def __iter__(self) -> Iterator[MulIr]:
        return iter(self.terms)

    @overload
    def __getitem__(self, i: SupportsIndex) -> MulIr: ...
    @overload
    def __getitem__(self, i: slice) -> Irreps: ...
    def __getitem__(self, i: SupportsIndex | slice) -> MulIr | Irreps:
        return Irreps(self.terms[i], self.layout) if isinstance(i, slice) else self.terms[i]

    def __contains__(self, ir: str | tuple[int, int]) -> bool:
        found = _single(ir)
        return any(term.ir == found for term in self.terms)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Irreps):
            return self.terms == other.terms and self.layout == other.layout
        if isinstance(other, str):
            try:
                other = _parse(other)
            except ValueError:
                return False
        if isinstance(other, tuple):  # e3nn.o3.Irreps is one, too
            return self.layout == "mul_ir" and self.terms == other
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.terms if self.layout == "mul_ir" else (self.terms, self.layout))

    def __add__(self, other: Representation | str | Iterable[Term]) -> Representation:
        if not isinstance(other, Representation):
            other = Irreps(other, self.layout)
        return super().__add__(other)

    def __mul__(self, copies: int) -> Irreps:
        if index(copies) < 0:
            raise ValueError(f"copies of {self} must not be negative, got {copies}")
        return Irreps(self.terms * index(copies), self.layout)

    __rmul__ = __mul__

    def __str__(self) -> str:
        return "+".join(map(str, self.terms))

    def __repr__(self) -> str:
        layout = "" if self.layout == "mul_ir" else f", layout={self.layout!r}"
        return f"Irreps({str(self)!r}{layout})"

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        self.check_features(x)
        matrices = self._blocks(g.double())
        batch = torch.broadcast_shapes(g.shape[:-2], x.shape[:-1])
        moved = [x.new_zeros(*batch, 0)]
        for (mul, (l, p)), piece in zip(self.terms, self._split(x), strict=True):
            d = matrices[l, p].to(x.dtype)
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

    @property
    def num_irreps(self) -> int:
        """The number of irreps, which is the sum of multiplicities."""
        return sum(mul for mul, _ in self.terms)

    @property
    def ls(self) -> list[int]:
        """The degree of every irrep, one per copy."""
        return [ir.l for mul, ir in self.terms for _ in range(mul)]

    @property
    def lmax(self) -> int:
        """The largest degree of positive multiplicity; ``ValueError`` if there is none."""
        if not (ls := self.ls):
            raise ValueError(f"lmax needs a term of positive multiplicity, got {self!r}")
        return max(ls)

    def count(self, ir: str | tuple[int, int]) -> int:
        """Return the multiplicity of an irrep, summed over terms."""
        found = _single(ir)
        return sum(term.mul for term in self.terms if term.ir == found)

    def filter(
        self, keep: Selection = None, *, drop: Selection = None, lmax: int | None = None
    ) -> Irreps:
        """Return the terms that are selected, in their order.

        Parameters
        ----------
        keep, drop : str, Irreps, iterable of irreps, or callable, optional
            Irreps to keep or to drop, whose multiplicities are ignored, or a function of the term
            ``(mul, ir)``.
        lmax : int, optional
            The largest degree to keep. Two of these arguments raise ``ValueError``.

        Examples
        --------
        >>> irreps = Irreps("4x0e + 2x1o + 2e")
        >>> irreps.filter(["0e", "2e"]), irreps.filter(drop="1o"), irreps.filter(lmax=1)
        (Irreps('4x0e+1x2e'), Irreps('4x0e+1x2e'), Irreps('4x0e+2x1o'))
        """
        if sum(given is not None for given in (keep, drop, lmax)) > 1:
            raise ValueError("filter accepts one of keep, drop and lmax")
        terms = self.terms
        if lmax is not None:
            terms = tuple(term for term in terms if term.ir.l <= lmax)
        if keep is not None:
            terms = tuple(filter(_test(keep, "keep"), terms))
        if drop is not None:
            terms = tuple(filterfalse(_test(drop, "drop"), terms))
        return Irreps(terms, self.layout)

    def randn(
        self,
        *size: int,
        normalization: Literal["component", "norm"] = "component",
        requires_grad: bool = False,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return normally distributed features; for a seed, those of e3nn.

        Parameters
        ----------
        *size : int
            Shape, with -1 for the axis of features; anything but one -1 raises ``ValueError``.
        normalization : {"component", "norm"}, optional
            Components of variance one, or irreps of norm one.
        requires_grad, dtype, device, generator : optional
            As in ``torch.randn``.

        Examples
        --------
        >>> Irreps("5x0e + 10x1o").randn(2, -1).shape
        torch.Size([2, 35])
        """
        if size.count(-1) != 1:
            raise ValueError(f"size must contain -1 once, in the place of features, got {size}")
        if normalization not in ("component", "norm"):
            raise ValueError(f'normalization must be "component" or "norm", got {normalization!r}')
        axis = size.index(-1)
        before, after = size[:axis], size[axis + 1 :]

        def draw(*features: int) -> Tensor:
            shape = (*before, *features, *after)
            return torch.randn(shape, dtype=dtype, device=device, generator=generator)

        if normalization == "component":
            return draw(self.dim).requires_grad_(requires_grad)
        parts = [draw(0)]
        for mul, ir in self.terms:
            part = draw(mul, ir.dim)
            part = part / part.norm(dim=axis + 1, keepdim=True)
            part = part if self.layout == "mul_ir" else part.transpose(axis, axis + 1)
            parts.append(part.flatten(axis, axis + 1))
        return torch.cat(parts, axis).requires_grad_(requires_grad)

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

    def sort(self) -> Sorted:
        """Sort terms by degree, odd before even, keeping the order among equals.

        Returns
        -------
        irreps : Irreps
            The sorted terms, not merged.
        p : tuple of int
            The new position of each old term.
        inv : tuple of int
            The old position of each sorted term.

        Examples
        --------
        >>> irreps, p, inv = Irreps("2e + 1o + 0e + 0o").sort()
        >>> str(irreps), p, inv
        ('1x0o+1x0e+1x1o+1x2e', (3, 2, 1, 0), (3, 2, 1, 0))
        """
        inv = tuple(sorted(range(len(self.terms)), key=lambda k: self.terms[k].ir))
        p = tuple(sorted(range(len(inv)), key=inv.__getitem__))
        return Sorted(Irreps([self.terms[k] for k in inv], self.layout), p, inv)

    def regroup(self) -> Irreps:
        """Sort and merge terms.

        Examples
        --------
        >>> str(Irreps("1o + 0e + 1o + 0x2e").regroup())
        '1x0e+2x1o'
        """
        return self.sort().irreps.simplify()

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
        """Return matrices (..., 2l+1, 2l+1) of every irrep that occurs, by plain pairs."""
        self.group.check_shape(g)
        # an improper g is the inversion times the rotation -g, and the inversion acts as p
        improper = (torch.linalg.det(g) < 0)[..., None, None]
        rotation = torch.where(improper, -g, g)
        degrees = {l for _, (l, _) in self.terms}
        rotations = {l: wigner_d(l, rotation) for l in degrees}
        # torch.compile takes a named tuple and the equal pair for different keys
        return {
            (l, p): torch.where(improper, p * rotations[l], rotations[l])
            for _, (l, p) in self.terms
        }

    def _assemble(self, empty: Tensor, blocks: dict[tuple[int, int], Tensor]) -> Tensor:
        """Return block-diagonal matrices in the layout; ``empty`` carries the batch axes."""
        out = [empty]
        for mul, (l, p) in self.terms:
            block, copies = blocks[l, p], torch.eye(mul).to(blocks[l, p])
            pair = (copies, block) if self.layout == "mul_ir" else (block, copies)
            out.append(batched_kronecker(*pair))
        return block_diagonal(out)


class Sorted(NamedTuple):
    """Result of :meth:`Irreps.sort`."""

    irreps: Irreps
    p: tuple[int, ...]  # new position of each old term
    inv: tuple[int, ...]  # old position of each sorted term


_TERM = re.compile(r"(?:(?P<mul>\d+)\s*x\s*)?(?P<l>\d+)(?P<p>[eoy])")


def _parse(text: str) -> tuple[MulIr, ...]:
    if not text.strip():
        return ()
    terms: list[MulIr] = []
    for part in text.split("+"):
        match = _TERM.fullmatch(part.strip())
        if match is None:
            raise ValueError(
                f'irreps {text!r} cannot be read at {part.strip()!r}: expected terms like "16x0e" '
                'or "1o", joined by "+"'
            )
        l = int(match["l"])
        p = {"e": 1, "o": -1, "y": (-1) ** l}[match["p"]]
        terms.append(MulIr(int(match["mul"] or 1), Irrep(l, p)))
    return tuple(terms)


def _collect(irreps: Iterable[Term]) -> tuple[MulIr, ...]:
    try:
        terms = tuple(MulIr(index(mul), Irrep(index(l), index(p))) for mul, (l, p) in irreps)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"irreps must be text, Irreps or pairs (mul, (l, p)), got {irreps!r}"
        ) from error
    for mul, (l, p) in terms:
        if mul < 0 or l < 0 or p not in (1, -1):
            raise ValueError(f"irreps need mul >= 0, l >= 0 and p of 1 or -1, got {mul, (l, p)}")
    return terms


def _single(ir: Any) -> Irrep:
    """Read one irrep: text without multiplicity, or (l, p)."""
    try:
        ((_, found),) = _parse(f"1x{ir}") if isinstance(ir, str) else _collect([(1, ir)])
    except (TypeError, ValueError) as error:
        raise ValueError(f'an irrep must be text such as "1o", or (l, p), got {ir!r}') from error
    return found


def read_kinds(value: Any, name: str) -> frozenset[Irrep] | None:
    """Read irreps to select: text, Irreps, or texts, irreps and terms, one or several; or None."""
    if value is None:
        return None
    # an irrep or a term; o3.Irrep has no length
    lone = isinstance(value, tuple) and value[:1] and isinstance(value[0], int)
    items = [value] if lone or isinstance(value, str) else value
    try:
        return frozenset(ir for item in items for ir in _irreps_of(item))
    except (TypeError, ValueError, IndexError) as error:
        expected = 'irreps such as ["0e", "1o"]'
        raise ValueError(f"{name} must hold {expected}, got {value!r}") from error


def _irreps_of(item: Any) -> list[Irrep]:
    if isinstance(item, str):
        return [ir for _, ir in _parse(item)]
    return [ir for _, ir in _collect([item if isinstance(item[1], tuple) else (1, item)])]


def _test(kinds: Any, name: str) -> Callable[[MulIr], object]:
    """Return the condition on terms that an argument of ``filter`` stands for."""
    if callable(kinds):
        return kinds
    found = read_kinds(kinds, name) or ()
    return lambda term: term.ir in found
