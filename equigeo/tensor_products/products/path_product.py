"""Base of products by paths: choice of the op, evaluation, weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from equigeo._core.tensors import HALF, computes_in_float32, in_float32
from equigeo.nn import Tables
from equigeo.nn.channel_mixing import join_sums
from equigeo.nn.module import check_reached
from equigeo.nn.state import stateless
from equigeo.ops import LARGEST_DEGREE
from equigeo.reps import Representation
from equigeo.reps.irreps import Layout, Term
from equigeo.tensor_products.evaluators import (
    ChannelwisePaths,
    CompiledPaths,
    CopywisePaths,
    FullyConnectedPaths,
    MixedPaths,
    ScaledPaths,
)
from equigeo.tensor_products.instructions import Instruction, Operands, terms_of
from equigeo.tensor_products.products.base import Product, WeightedPaths
from equigeo.tensor_products.reference import (
    component_axis,
    couple_matched,
    couple_pairs,
    finish_path,
    group_paths,
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
        self._groups, tables = group_paths(self.instructions, operands)
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
        compiled = self.compiled
        if compiled is not None and compiled.accepts(x, weight):
            return compiled.evaluate(x, y, weight, batch)
        if x.dtype in HALF:
            return in_float32(self.forward, [x, y, weight])
        return self._forward_reference(x, y, weight, batch)

    def multiply_adds(self) -> int:
        return sum(group.multiply_adds() for group in self._groups)

    def extra_repr(self) -> str:
        paths = len(self.instructions)
        return f"{super().extra_repr()}, {paths} paths, {self.weight_numel} weights"

    def _forward_reference(
        self, x: Tensor, y: Tensor, weight: Tensor | None, batch: torch.Size
    ) -> Tensor:
        """Evaluate group by group and sum the paths into the output terms."""
        slots: list[list[Tensor]] = [[] for _ in self.irreps_out.terms]
        xs, ys = split_terms(x, self.irreps_in1), split_terms(y, self.irreps_in2)
        for n, group in enumerate(self._groups):
            x_term, y_term = xs[group.i_in1], ys[group.i_in2]
            x_term, y_term = prepare_inputs(group, x_term, y_term, weight, self.layout)
            couple = couple_matched if group.matched else couple_pairs
            joint = couple(x_term, y_term, self.tables[f"group{n}", x.dtype], self.layout)
            shares = joint.split(group.dims, component_axis(self.layout))
            for path, z in zip(group.paths, shares, strict=True):
                upper = self.upper[f"mul{group.muls[0]}"] if path.upper else None
                z = finish_path(path, z, weight, upper, self.layout)
                slots[path.i_out].append(z.flatten(-2))
        return join_sums(slots, [mul * (2 * l + 1) for mul, (l, _) in self.irreps_out], batch, x)


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
        return self.product.extra_repr()


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
