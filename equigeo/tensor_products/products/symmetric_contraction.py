"""The symmetric contraction of MACE."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, ClassVar, Literal, final

import torch
from torch import Tensor, nn

from equigeo._core.checks import check_tensor, checked_integer
from equigeo._core.tensors import computed_in, computes_in_float32, plain_tensors, rounded_once
from equigeo.nn import Tables
from equigeo.nn.module import irreps_argument
from equigeo.nn.state import SavedOptions
from equigeo.nn.tables import IndexTables
from equigeo.ops import Polynomial, PolynomialTable
from equigeo.ops.products.symmetric_contraction import symmetric_contraction_op
from equigeo.reps import Irreps, Representation
from equigeo.reps.irreps import Layout
from equigeo.tensor_products.products.symmetric_basis import monomials, projection, symmetric_basis

_POSITIONS = "products", "polynomials", "groups", "nodes"  # in the order of PolynomialTable


@final
class SymmetricPolynomials(nn.Module):
    """Polynomials of bases as a table for :func:`equigeo.ops.symmetric_contraction`."""

    def __init__(
        self,
        variables: int,
        # per degree and output, (basis, 2 l + 1, monomials) each
        bases: Sequence[Sequence[Tensor]],
    ) -> None:
        super().__init__()
        self.sizes = [basis.shape[1] for basis in bases[0]]
        found: list[Polynomial] = []
        weight = 0
        for degree, row in enumerate(bases, 1):
            for start, basis in zip(accumulate([0, *self.sizes]), row, strict=False):
                for polynomial in basis:
                    found += _components(polynomial, start, weight, monomials(variables, degree))
                    weight += 1
        with plain_tensors():
            table = PolynomialTable.from_polynomials(found, [variables], self.sizes)
        self.positions = IndexTables(**{name: getattr(table, name) for name in _POSITIONS})
        self.levels = table.levels
        self.tables = Tables(values=table.values)

    def forward(
        self, x: Tensor, weight: Tensor, index: Tensor, dims_in: Sequence[int], ir_mul: bool
    ) -> Tensor:
        """Evaluate rows of features with the weights selected by ``index``."""
        positions = (self.positions[name] for name in _POSITIONS)
        values = self.tables["values", computed_in(x.dtype)]
        dims = [*dims_in], [1] * sum(self.sizes) if ir_mul else self.sizes
        return symmetric_contraction_op(x, weight, index, *positions, values, [*self.levels], *dims)

    def multiply_adds(self) -> int:
        """Return multiply-accumulate operations and single multiplications per channel."""
        return sum(len(self.positions[name]) for name in _POSITIONS)


def _components(
    polynomial: Tensor, start: int, weight: int, names: Sequence[tuple[int, ...]]
) -> list[Polynomial]:
    """Split a polynomial (components, monomials) into its nonzero components."""
    components = []
    for m, row in enumerate(polynomial):
        positions = row.nonzero().flatten().tolist()
        values = {names[position]: row[position].item() for position in positions}
        if values:
            components.append(Polynomial(start + m, weight, values))
    return components


Block = tuple[int, int]  # of weights: output term and order of the polynomial


@final
class SymmetricContraction(SavedOptions):
    r"""Equivariant polynomial per channel of a feature, with weights per element.

    .. math::
        B_{c M} = \sum_{\nu = 1}^N \sum_k W^\nu_{e k c}
        \sum_{i_1 \ldots i_\nu} U^\nu_{k M i_1 \ldots i_\nu} A_{c i_1} \cdots A_{c i_\nu}

    (Batatia et al., "MACE", NeurIPS 2022, equations 10 and 11). Only the symmetric parts of the
    coupling tensors :math:`U` count. They are stored by their nonzero monomials :math:`A_i A_j
    A_k`, :math:`i \le j \le k`: 497 numbers where the full tensors of ``0e+1o+2e+3o`` to ``0e+1o``
    at third order have 176 x 4,096. Equivariant under O(3) for fixed elements.

    Parameters
    ----------
    irreps_in, irreps_out : Irreps or str
        With one multiplicity, the number of channels, everywhere.
    correlation : int
        Highest degree N of the polynomial.
    num_elements : int
        Number of sets of weights.
    basis : {"reduced", "original"}
        "reduced": independent polynomials, orthogonal as symmetric tensors, ordered by degree and
        then output. "original": the over-complete paths of MACE, ordered by output and then from
        degree N down to 1.
    layout : {"mul_ir", "ir_mul"}
        Of flat features and of the result.

    Attributes
    ----------
    weight : Parameter, (num_elements, weights, channels)
        N(0, 1) divided by the number of weights of the block; the shape of cuEquivariance.
    blocks : dict of (int, int) to slice
        Range on the second axis of ``weight`` for each (output term, degree). In MACE, block ``(i,
        N)`` is ``contractions.i.weights_max`` and ``(i, n)`` is ``contractions.i.weights.{N - 1 -
        n}``.

    Examples
    --------
    >>> contract = SymmetricContraction("8x0e+8x1o", "8x0e", correlation=3, num_elements=2)
    >>> contract.weight.shape
    torch.Size([2, 5, 8])
    >>> contract(torch.randn(10, 8, 4), torch.randint(2, (10,))).shape
    torch.Size([10, 8])
    """

    blocks: dict[tuple[int, int], slice]

    def __init__(
        self,
        irreps_in: Irreps | str,
        irreps_out: Irreps | str,
        correlation: int,
        num_elements: int,
        *,
        basis: Literal["reduced", "original"] = "reduced",
        layout: Layout = "mul_ir",
    ) -> None:
        super().__init__()
        if basis not in ("reduced", "original"):
            raise ValueError(f'basis must be "reduced" or "original", got {basis!r}')
        correlation = checked_integer("correlation", correlation)
        num_elements = checked_integer("num_elements", num_elements)
        if min(correlation, num_elements) < 1:
            raise ValueError(
                "correlation and num_elements must be at least 1, "
                f"got {correlation} and {num_elements}"
            )
        self.irreps_in = irreps_argument("irreps_in", irreps_in, layout)
        self.irreps_out = irreps_argument("irreps_out", irreps_out, layout)
        self.channels = _channels(self.irreps_in, self.irreps_out)
        self.correlation, self.num_elements = correlation, num_elements
        self.basis = basis
        self._build()
        lengths = [block.stop - block.start for block in self.blocks.values()]
        # As MACE draws them: N(0, 1) over the number of paths of a block.
        scale = torch.tensor([1 / length for length in lengths for _ in range(length)])
        weight = torch.randn(self.num_elements, len(scale), self.channels)
        self.weight = nn.Parameter(weight * scale[:, None])

    @property
    def rep_in(self) -> tuple[Representation, None]:
        """Representations of flat features, and none of elements."""
        return self.irreps_in, None

    @property
    def rep_out(self) -> Representation:
        """Representation of the result."""
        return self.irreps_out

    @computes_in_float32
    def forward(self, x: Tensor, element: Tensor) -> Tensor:
        """Evaluate the polynomial, to flat features (..., irreps_out.dim).

        ``x`` is (..., channels, dim), with one copy of each irrep on the last axis, or flat
        (..., irreps_in.dim). ``element`` selects the weights, (...) int64 or int32, or mixes them,
        (..., num_elements) floating, such as the one-hot vectors of MACE.
        """
        batch = self._check_inputs(x, element)
        # Blocks of variables that lie side by side in a row, for each channel: all of a sample,
        # each irrep in mul_ir, or single components in ir_mul.
        dims = [2 * l + 1 for _, (l, _) in self.irreps_in]
        ir_mul = self.irreps_out.layout == "ir_mul"
        if x.ndim == len(batch) + 2:
            dims = [sum(dims)]
        elif ir_mul:
            dims = [1] * sum(dims)
        rows = x.reshape(math.prod(batch), self.irreps_in.dim)

        def contract(rows: Tensor, weight: Tensor, element: Tensor) -> Tensor:
            return self.polynomials(rows, *self._of_rows(weight, element), dims, ir_mul)

        z: Tensor = rounded_once(contract, [rows, self.weight, element])
        return z.reshape(*batch, self.irreps_out.dim)

    def reduce_weight(self, weight: Tensor) -> Tensor:
        """Convert weights (..., paths, channels) of the original basis to the reduced one."""
        if self.basis != "original":
            raise ValueError('weights can be reduced by a module of basis "original" only')
        return self.tables["change", weight.dtype] @ weight

    def multiply_adds(self) -> int:
        """Return multiply-accumulate operations per sample, without those of weights alone."""
        return self.channels * self.polynomials.multiply_adds()

    def extra_repr(self) -> str:
        return (
            f"{self.irreps_in} -> {self.irreps_out}, correlation={self.correlation}, "
            f"num_elements={self.num_elements}, basis={self.basis!r}"
        )

    _default_options: ClassVar[Mapping[str, Any]] = {"basis": "reduced"}

    def _saved_options(self) -> Mapping[str, Any]:
        return {"basis": self.basis, "correlation": self.correlation}

    def _build(self) -> None:
        """Register the tables and lay out the weights."""
        ins, outs = ([ir for _, ir in irreps] for irreps in (self.irreps_in, self.irreps_out))
        orders = range(1, self.correlation + 1)
        bases = [[symmetric_basis(tuple(ins), n, ir) for ir in outs] for n in orders]
        self.polynomials = SymmetricPolynomials(self.irreps_in.dim // self.channels, bases)
        tables: dict[str, Tensor] = {}
        keys = [(i, n) for n in orders for i in range(len(outs))]
        self.blocks = _consecutive({(i, n): len(bases[n - 1][i]) for i, n in keys})
        if self.basis == "original":
            keys = [(i, n) for i in range(len(outs)) for n in reversed(orders)]
            parts = {(i, n): projection(tuple(ins), n, outs[i]).T for i, n in keys}
            reduced = self.blocks
            self.blocks = _consecutive({key: part.shape[1] for key, part in parts.items()})
            with plain_tensors():
                tables["change"] = _assemble(parts, reduced, self.blocks)
        self.tables = Tables(**tables)

    def _of_rows(self, weight: Tensor, element: Tensor) -> tuple[Tensor, Tensor]:
        """Return reduced weight sets (sets, weights, channels), and the set of each row."""
        if self.basis == "original":
            weight = self.reduce_weight(weight)
        if not element.is_floating_point():
            return weight, element.reshape(-1).long()
        # A one-hot vector, or a mixture of elements: each row has weights of its own.
        mixed = torch.tensordot(element.reshape(-1, self.num_elements), weight, dims=1)
        return mixed, torch.arange(mixed.shape[0], device=mixed.device)

    def _check_inputs(self, x: Tensor, element: Tensor) -> torch.Size:
        """Return the leading axes, or raise if the inputs do not match."""
        for name, value in (("x", x), ("element", element)):
            check_tensor(name, value)
        if not x.is_floating_point():
            raise TypeError(f"x must be floating, got {x.dtype}")
        for name, value in (("x", x), ("element", element)):
            if value.is_floating_point() and value.dtype != self.weight.dtype:
                raise TypeError(
                    f"{name} must have the dtype of weight, {self.weight.dtype}, got {value.dtype}"
                )
            if value.device != self.weight.device:
                raise ValueError(
                    f"{name} must be on the device of weight, {self.weight.device}, "
                    f"got {value.device}"
                )
        batch, dim = self._batch(element), self.irreps_in.dim
        shapes = [(*batch, self.channels, dim // self.channels), (*batch, dim)]
        if tuple(x.shape) not in shapes:
            raise ValueError(f"x must be {shapes[0]} or {shapes[1]}, got {tuple(x.shape)}")
        return batch

    def _batch(self, element: Tensor) -> torch.Size:
        if element.dtype in (torch.int64, torch.int32):
            return element.shape
        if not element.is_floating_point():
            raise TypeError(f"element must be int64, int32 or floating, got {element.dtype}")
        if element.shape[-1:] != (self.num_elements,):
            raise ValueError(
                f"a floating element must be (..., {self.num_elements}), got {tuple(element.shape)}"
            )
        return element.shape[:-1]


def _channels(*sides: Irreps) -> int:
    found = {mul for irreps in sides for mul, _ in irreps}
    if len(found) != 1 or 0 in found or not all(irreps.terms for irreps in sides):
        raise ValueError(
            "irreps_in and irreps_out must have terms, all of one positive multiplicity, got "
            + " and ".join(repr(str(irreps)) for irreps in sides)
        )
    return found.pop()


def _consecutive(lengths: dict[Block, int]) -> dict[Block, slice]:
    ends = list(accumulate(lengths.values(), initial=0))
    return {key: slice(*ends[k : k + 2]) for k, key in enumerate(lengths)}


def _assemble(
    parts: dict[Block, Tensor], rows: dict[Block, slice], columns: dict[Block, slice]
) -> Tensor:
    """Return a block matrix, zero elsewhere."""
    shape = (max(s.stop for s in rows.values()), max(s.stop for s in columns.values()))
    whole = torch.zeros(shape, dtype=torch.float64)
    for key, part in parts.items():
        whole[rows[key], columns[key]] = part
    return whole
