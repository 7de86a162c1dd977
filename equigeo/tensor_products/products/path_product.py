"""Base of products by paths: evaluation and weights."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor

from equigeo._core.cache import kept
from equigeo._core.tensors import HALF, computes_in_float32, in_float32
from equigeo.nn import Tables
from equigeo.nn.module import check_reached
from equigeo.nn.state import stateless
from equigeo.ops import LARGEST_DEGREE
from equigeo.reps import Irreps, Representation
from equigeo.reps.irreps import Layout, Term
from equigeo.reps.wigner import wigner_3j_table
from equigeo.tensor_products.evaluators import (
    ChannelwisePaths,
    CompiledPaths,
    CopywisePaths,
    FullyConnectedPaths,
    MixedPaths,
    ScaledPaths,
)
from equigeo.tensor_products.instructions import Instruction, Irrep, Operands, terms_of
from equigeo.tensor_products.products.base import Product, WeightedPaths
from equigeo.tensor_products.reference import (
    component_axis,
    couple_matched,
    couple_pairs,
    finish_path,
    group_paths,
    group_tables,
    join_terms,
    prepare_inputs,
    split_terms,
    upper_triangles,
)


class PathProduct(Product, WeightedPaths):
    """Base of Clebsch-Gordan products along paths; subclasses choose the paths.

    Attributes
    ----------
    instructions : tuple of Instruction
        With the factor of each path in place of its ``path_weight``, as in e3nn.
    compiled : CompiledPaths or None
        Evaluator of all paths by one op; without one, PyTorch evaluates them path by path.
    layout : {"mul_ir", "ir_mul"}
        Of inputs and output.

    Examples
    --------
    >>> from equigeo.reps import Irreps
    >>> class Dot(PathProduct):  # of vectors, channel by channel
    ...     def __init__(self, mul):
    ...         vectors, scalars = Irreps(f"{mul}x1o"), Irreps(f"{mul}x0e")
    ...         path = Instruction(0, 0, 0, "uuu", False, path_weight=3**0.5)
    ...         super().__init__((vectors, vectors, scalars), [path])
    >>> x = torch.tensor([1.0, 2, 3])
    >>> Dot(1)(x, x)
    tensor([14.])
    """

    @abstractmethod
    def __init__(
        self,
        operands: Operands,
        instructions: Iterable[Instruction],
        *,
        internal_weights: bool | None = None,
        shared_weights: bool = True,
    ) -> None:
        super().__init__(*operands)
        self.layout: Layout = self.irreps_in1.layout
        # Whether all rows share weights decides which op evaluates the paths.
        self.shared_weights = shared_weights
        self.set_paths(instructions)
        ins, reached = (self.irreps_in1, self.irreps_in2), self._reached_terms()
        # A constructor of a subclass lies between this one and the line to blame.
        check_reached(type(self).__name__, ins, self.irreps_out, reached, stacklevel=3)
        self._set_weights(internal=internal_weights, shared=shared_weights)
        self.upper = upper_triangles(self._groups)

    def set_paths(self, instructions: Iterable[Instruction]) -> None:
        """Build the evaluation of resolved instructions; weights and output do not change."""
        self.instructions = tuple(instructions)
        operands = (self.irreps_in1, self.irreps_in2, self.irreps_out)
        self._groups = group_paths(self.instructions, operands)
        tables = group_tables(self.instructions, operands)
        self.tables = Tables(**{f"group{n}": table for n, table in enumerate(tables)})
        self.compiled = compiled_paths(
            self.instructions, operands, shared_weights=self.shared_weights
        )

    @computes_in_float32
    def forward(self, x: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Multiply two features (..., dim), with leading axes that broadcast.

        ``weight`` is (..., weight_numel), or (weight_numel,) if ``shared_weights``; it replaces the
        weights that the module may own.
        """
        weight = self._choose_weight(weight)
        batch = self.check_inputs(x, y, weight)
        return self._evaluate(x, y, weight, batch)

    def multiply_adds(self) -> int:
        """Return multiply-accumulate operations of couplings and weights."""
        return sum(group.multiply_adds() for group in self._groups)

    def extra_repr(self) -> str:
        """Return the options for ``print(module)``."""
        paths = len(self.instructions)
        return f"{super().extra_repr()}, {paths} paths, {self.weight_numel} weights"

    def _evaluate(self, x: Tensor, y: Tensor, weight: Tensor | None, batch: torch.Size) -> Tensor:
        compiled = self.compiled
        if compiled is not None and compiled.accepts(x, weight):
            return compiled.evaluate(x, y, weight, batch)
        if x.dtype in HALF:
            wide = partial(self._evaluate, batch=batch)
            return cast(Tensor, in_float32(wide, [x, y, weight]))
        return self._forward_reference(x, y, weight, batch)

    def _forward_reference(
        self, x: Tensor, y: Tensor, weight: Tensor | None, batch: torch.Size
    ) -> Tensor:
        """Evaluate group by group and sum the paths into the output terms."""
        slots: list[list[Tensor]] = [[] for _ in self.irreps_out.terms]
        xs, ys = split_terms(x, self.irreps_in1), split_terms(y, self.irreps_in2)
        for n, group in enumerate(self._groups):
            x_term, y_term = xs[group.i_in1], ys[group.i_in2]
            x_term, y_term = prepare_inputs(group, x_term, y_term, weight, self.layout)
            joint = self._couple(n, x_term, y_term)
            shares = joint.split(group.dims, component_axis(self.layout))
            for path, z in zip(group.paths, shares, strict=True):
                upper = self.upper[f"mul{group.muls[0]}"] if path.upper else None
                slots[path.i_out].append(finish_path(path, z, weight, upper, self.layout))
        return join_terms(slots, self.irreps_out, batch, x)

    def _couple(self, n: int, x: Tensor, y: Tensor) -> Tensor:
        """Couple two terms by the table of a group: (..., channels, components), or reversed."""
        table = self.tables[f"group{n}", x.dtype]
        couple = couple_matched if self._groups[n].matched else couple_pairs
        return couple(x, y, table, self.layout)


def compiled_paths(
    instructions: Sequence[Instruction],
    operands: Operands,
    *,
    shared_weights: bool,  # whether all rows have the same weights
) -> CompiledPaths | None:
    """Return the op for a set of instructions, or None if no op supports them."""
    # connection   weights            second input  evaluator            op
    # uvw          shared             scalars       ScaledPaths          block_linear
    # uvw, uuw     shared, or none    any           MixedPaths           copywise_product, matmul
    # uvuv, uuu    all or none        any           CopywisePaths        copywise_product
    # uvu          all or none        any           ChannelwisePaths     channelwise_product
    # uvw          per row            any           FullyConnectedPaths  fully_connected_product
    # others, degrees above LARGEST_DEGREE and paths of which only some have weights: PyTorch
    paths = [path for path in instructions if 0 not in path.path_shape]
    modes = {path.connection for path in paths}
    weighted = {path.has_weight for path in paths}
    scalars = all(l == 0 for _, (l, _) in operands[1].terms)
    if paths and modes == {"uvw"} and weighted == {True} and shared_weights and scalars:
        return ScaledPaths(instructions, operands)
    if paths and modes <= {"uvw", "uuw"} and (shared_weights or weighted == {False}):
        return MixedPaths(instructions, operands)
    if len(weighted) != 1:
        return None
    if modes <= {"uvuv", "uuu"}:
        return CopywisePaths(instructions, operands)
    first, _, out = zip(*(terms_of(path, operands) for path in paths), strict=True)
    if modes == {"uvu"} and _fit_registers(first):
        return ChannelwisePaths(instructions, operands)
    if modes == {"uvw"} and _fit_registers([*first, *out]):
        return FullyConnectedPaths(instructions, operands)
    return None


def _fit_registers(terms: Sequence[Term]) -> bool:
    return max(l for _, (l, _) in terms) <= LARGEST_DEGREE


SAMPLES = 4  # random vectors per irrep; one would do, if it never met a coupling near a zero
RESIDUAL = 1e-12  # of the largest output: bound of rounding in components that are no coupling
ZERO = 1e-11  # of the largest coefficient; rounding leaves a thousandth of it
NOTHING = 1e-13  # of the product of the inputs: an output that is rounding and nothing else
_CHUNK = 2**24  # numbers of output computed at a time


def path_coefficients(
    product: Product,  # in float64
    weight: Tensor | None = None,  # (weight_numel,), passed on if given
) -> Tensor:  # (irreps of in1, irreps of in2, irreps of out)
    """Return the coefficients kappa_abc of a product; raise if it is not a sum of couplings."""
    # z_c = sum_ab kappa_abc C^{la lb lc}(x_a, y_b). Equality on random vectors holds everywhere
    # with probability one; rounding is set to zero.
    irreps1 = [ir for ir, _ in single_irreps(product.irreps_in1)]
    irreps2 = [ir for ir, _ in single_irreps(product.irreps_in2)]
    # A product of single irreps is one number per allowed triple (Schur's lemma): random vectors of
    # each pair, zeros elsewhere, yield it by projecting the output on the coupling.
    x, y = embedded_probes(product.irreps_in1, 0), embedded_probes(product.irreps_in2, 1)
    given = () if weight is None else (weight,)
    rows = max(1, _CHUNK // max(1, len(irreps2) * SAMPLES * product.irreps_out.dim))
    parts = [x.new_zeros(0, len(irreps2), len(single_irreps(product.irreps_out)))]
    sizes, residuals = [x.new_zeros(())], [x.new_zeros(())]
    with torch.no_grad():
        for start in range(0, len(irreps1), rows):
            z = product(x[start : start + rows, None], y[None], *given)
            part, rest = project(z, irreps1[start : start + rows], irreps2, product)
            parts.append(part)
            sizes.append(_largest(z))
            residuals.append(rest)
    kappa = torch.cat(parts)
    size, left = float(torch.stack(sizes).amax()), float(torch.stack(residuals).amax())
    if size <= NOTHING * float(_largest(x) * _largest(y)):
        return torch.zeros_like(kappa)
    if not left <= RESIDUAL * size:
        raise ValueError(
            f"{type(product).__name__}({product.extra_repr()}) must be equivariant under "
            f"{product.rep_out.group}, but {left / size:.2g} of its output is no multiple of a "
            "coupling"
        )
    return kappa.where(kappa.abs() > ZERO * _largest(kappa), 0.0)


def project(
    z: Tensor,  # (first irreps, second irreps, SAMPLES, dim), outputs for probes
    irreps1: Sequence[Irrep],
    irreps2: Sequence[Irrep],
    product: Product,  # under SO(3), its parities are names only
) -> tuple[Tensor, Tensor]:  # (first irreps, second irreps, irreps of out), ()
    """Return coefficients of probe outputs and the largest component that couplings miss."""
    kinds1, kinds2 = list(dict.fromkeys(irreps1)), list(dict.fromkeys(irreps2))
    index1 = torch.tensor([kinds1.index(ir) for ir in irreps1], dtype=torch.int64)
    index2 = torch.tensor([kinds2.index(ir) for ir in irreps2], dtype=torch.int64)
    parts, residuals = [z.new_zeros(*z.shape[:2], 0)], [z.new_zeros(())]
    # Under SO(3) only, any parities may couple.
    reflects = product.rep_out.group == Irreps.group
    for ir, positions in _by_kind(product.irreps_out).items():
        table = z.new_zeros(len(kinds1), len(kinds2), SAMPLES, 2 * ir[0] + 1)
        for i, (l1, p1) in enumerate(kinds1):
            for j, (l2, p2) in enumerate(kinds2):
                allowed = not reflects or p1 * p2 == ir[1]
                if allowed and abs(l1 - l2) <= ir[0] <= l1 + l2:
                    table[i, j] = _coupled_probes(l1, l2, ir[0])
        expected = table[index1][:, index2]
        found = z[..., positions]
        square = expected.square().sum((-1, -2)).clamp_min(torch.finfo(z.dtype).tiny)
        part = torch.einsum("absum,absm->abu", found, expected) / square[..., None]
        rest = found - part[:, :, None, :, None] * expected[..., None, :]
        residuals.append(_largest(rest.detach()))
        parts.append(part)
    return torch.cat(parts, dim=-1), torch.stack(residuals).amax()


def single_irreps(irreps: Irreps) -> list[tuple[Irrep, Tensor]]:
    """Return every copy of every irrep with the positions (2 l + 1,) of its components."""
    return [(ir, row) for ir, positions in _by_kind(irreps).items() for row in positions]


def embedded_probes(
    irreps: Irreps,
    operand: int,  # 0 or 1, for independent vectors
) -> Tensor:  # (single irreps, SAMPLES, dim), float64
    """Return random features, one single irrep at a time."""
    singles = single_irreps(irreps)
    x = torch.zeros(len(singles), SAMPLES, irreps.dim, dtype=torch.float64)
    for row, ((l, _), positions) in zip(x, singles, strict=True):
        row[:, positions] = _probe(l, operand)
    return x


def in_double(product: Product) -> Product:
    """Return a copy of a product in float64 on the CPU, in evaluation mode."""
    return copy.deepcopy(product).cpu().double().eval()


def _largest(x: Tensor) -> Tensor:
    return x.abs().amax() if x.numel() else x.new_zeros(())


def _by_kind(irreps: Irreps) -> dict[Irrep, Tensor]:
    """Return positions (copies, 2 l + 1) of each irrep, in the order of first appearance."""
    found: dict[Irrep, list[Tensor]] = {}
    kinds = [ir for mul, ir in irreps.terms if mul]
    for ir, part in zip(kinds, irreps.summands(), strict=True):
        found.setdefault(ir, []).append(part.positions)
    return {ir: torch.cat(rows) for ir, rows in found.items()}


@kept
def _probe(l: int, operand: int) -> Tensor:
    generator = torch.Generator().manual_seed(2 * l + operand)
    return torch.randn(SAMPLES, 2 * l + 1, dtype=torch.float64, generator=generator)


@kept
def _coupled_probes(l1: int, l2: int, l3: int) -> Tensor:
    """Return the coupled probes of two degrees, (SAMPLES, 2 l3 + 1)."""
    # z_k = sum_ij C_ijk x_i y_j
    left = torch.tensordot(_probe(l1, 0), wigner_3j_table(l1, l2, l3), 1)
    return torch.einsum("sjk,sj->sk", left, _probe(l2, 1))


class HeldProduct(WeightedPaths):
    """Base of modules that own the weights of one product, with the state of that product."""

    @abstractmethod
    def __init__(
        self,
        product: PathProduct,  # without internal weights
        *,
        internal_weights: bool | None = None,  # by default True if weights are shared and exist
        shared_weights: bool,  # whether all samples have the same weights
    ) -> None:
        super().__init__()
        self.product = stateless(product)
        self.irreps_in1, self.irreps_in2 = product.irreps_in1, product.irreps_in2
        self.irreps_out, self.layout = product.irreps_out, product.layout
        self.instructions = product.instructions
        self._set_weights(internal=internal_weights, shared=shared_weights)

    @property
    def rep_out(self) -> Representation:
        """Return the representation of the output."""
        return self.irreps_out

    def multiply_adds(self) -> int:
        """Return the multiply-accumulate operations per sample of the product."""
        return self.product.multiply_adds()

    def extra_repr(self) -> str:
        """Return the options for ``print(module)``."""
        return self.product.extra_repr()
