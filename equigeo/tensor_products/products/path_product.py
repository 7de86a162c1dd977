"""Base of products by paths: evaluation and weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor

from equigeo.nn import Tables
from equigeo.nn.reached import check_reached
from equigeo.ops import LARGEST_DEGREE
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.ops.runtime.storage import HALF, in_float32
from equigeo.reps.irreps import Layout, Term
from equigeo.tensor_products.paths.channelwise_paths import ChannelwisePaths
from equigeo.tensor_products.paths.compiled_paths import (
    CompiledPaths,
    CopywisePaths,
    FullyConnectedPaths,
)
from equigeo.tensor_products.paths.couple import component_axis, couple_matched, couple_pairs
from equigeo.tensor_products.paths.evaluate import (
    finish_path,
    join_terms,
    prepare_inputs,
    split_terms,
    upper_triangles,
)
from equigeo.tensor_products.paths.instruction import Instruction
from equigeo.tensor_products.paths.mixed_paths import MixedPaths
from equigeo.tensor_products.paths.path_groups import group_paths, group_tables
from equigeo.tensor_products.paths.resolve import Operands, terms_of
from equigeo.tensor_products.paths.scaled_paths import ScaledPaths
from equigeo.tensor_products.products.product import Product
from equigeo.tensor_products.products.weighted_paths import WeightedPaths


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
