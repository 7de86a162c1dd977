"""The tensor product by paths, with all connections, normalisations and weights of e3nn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.nn import Tables
from equigeo.reps.irreps import Layout
from equigeo.tensor_products.paths.channelwise_paths import ChannelwisePaths, channelwise_paths
from equigeo.tensor_products.paths.connected_ops import connected_paths
from equigeo.tensor_products.paths.couple import component_axis, couple_matched, couple_pairs
from equigeo.tensor_products.paths.evaluate import (
    finish_path,
    join_terms,
    prepare_inputs,
    split_terms,
    upper_triangles,
)
from equigeo.tensor_products.paths.foreign_state import differing_couplings, without_tables
from equigeo.tensor_products.paths.instruction import Instruction
from equigeo.tensor_products.paths.normalization import Normalization
from equigeo.tensor_products.paths.path_groups import group_paths, group_tables
from equigeo.tensor_products.paths.read_irreps import read_irreps
from equigeo.tensor_products.paths.resolve import resolve
from equigeo.tensor_products.products.product import Product


class TensorProduct(Product):
    r"""Clebsch-Gordan product along chosen paths, with the weights of ``e3nn.o3.TensorProduct``.

    A path couples one term of each input into a term of the output,

    .. math:: (x_u \otimes y_v)_k = f \sum_{ij} C^{l_1 l_2 l_3}_{ijk}\, x_{ui}\, y_{vj},

    with the factor f of the normalisation, and its connection says how channels and weights meet:

    ========  ==========================================================  =====================
    uvw       :math:`z_w = \sum_{uv} w_{uvw}\, x_u \otimes y_v`           weights mandatory
    uvu       :math:`z_u = \sum_v w_{uv}\, x_u \otimes y_v`
    uvv       :math:`z_v = \sum_u w_{uv}\, x_u \otimes y_v`
    uuw       :math:`z_w = \sum_u w_{uw}\, x_u \otimes y_u`               unweighted: one output
    uuu       :math:`z_u = w_u\, x_u \otimes y_u`
    uvuv      :math:`z_{uv} = w_{uv}\, x_u \otimes y_v`                   v fastest
    uvu<v     :math:`z_{uv} = w_{uv}\, x_u \otimes y_v`, u < v            rows of the triangle
    u<vw      :math:`z_w = \sum_{u<v} w_{(uv)w}\, x_u \otimes y_v`        weights mandatory
    ========  ==========================================================  =====================

    Paths into one term of the output are added up; a term that no path reaches is zero.

    Parameters
    ----------
    irreps_in1, irreps_in2, irreps_out : str, Irreps or e3nn.o3.Irreps
        Of the inputs and the output.
    instructions : iterable of tuple or Instruction
        ``(i_in1, i_in2, i_out, connection, has_weight[, path_weight])``.
    in1_var, in2_var, out_var : sequence of float, optional
        Variance of each term; 1 by default.
    irrep_normalization : {"component", "norm", "none"}, optional
        What keeps its size: the variance of components (default), the norm of irreps, or nothing.
    path_normalization : {"element", "path", "none"}, optional
        Whether paths into one output weigh by their numbers of products (default), alike, or
        unnormalised. ``path_weight`` multiplies under the same square root: 4 doubles a path.
    internal_weights : bool, optional
        Whether the module owns its weights; by default where they are shared and there are any.
    shared_weights : bool, optional
        Whether all samples have the same weights; True by default.
    layout : {"mul_ir", "ir_mul"}
        Of inputs and output. The weights are the same in both.

    Attributes
    ----------
    weight : Parameter or Tensor, (weight_numel,)
        Drawn from N(0, 1): one row-major block per weighted instruction, in their order. Empty
        where weights are given to ``forward``.
    instructions : tuple of Instruction
        With the factor of each path in place of its ``path_weight``, as in e3nn.
    output_mask : Tensor, (irreps_out.dim,)
        1 where a path reaches the output, else 0.

    Raises
    ------
    ValueError
        If an argument cannot be read, or an instruction breaks the triangle or parity rule, does
        not fit the multiplicities, or points at no term.

    Equivariance
    ------------
    Bilinear and equivariant under O(3), for any weights.

    References
    ----------
    Geiger, Smidt, "e3nn: Euclidean Neural Networks", 2022.

    Examples
    --------
    >>> cross = TensorProduct("16x1o", "16x1o", "16x1e", [(0, 0, 0, "uuu", False)])
    >>> x, y = torch.randn(2, 5, 48).unbind()
    >>> want = torch.linalg.cross(x.view(5, 16, 3), y.view(5, 16, 3)) / 2**0.5
    >>> torch.allclose(cross(x, y).view(5, 16, 3), want, atol=1e-5)
    True
    """

    weight: Tensor
    output_mask: Tensor

    def __init__(  # noqa: PLR0913 - the signature of e3nn
        self,
        irreps_in1: Any,
        irreps_in2: Any,
        irreps_out: Any,
        instructions: Iterable[Any],
        in1_var: Sequence[float] | None = None,
        in2_var: Sequence[float] | None = None,
        out_var: Sequence[float] | None = None,
        irrep_normalization: str | None = None,
        path_normalization: str | None = None,
        internal_weights: bool | None = None,
        shared_weights: bool | None = None,
        *,
        layout: Layout = "mul_ir",
    ) -> None:
        operands = (
            read_irreps("irreps_in1", irreps_in1, layout),
            read_irreps("irreps_in2", irreps_in2, layout),
            read_irreps("irreps_out", irreps_out, layout),
        )
        super().__init__(*operands)
        self.layout: Layout = layout
        normalization = Normalization.read(
            operands, (in1_var, in2_var, out_var), irrep_normalization, path_normalization
        )
        self.shared_weights = True if shared_weights is None else shared_weights
        self.set_paths(normalization.apply(resolve(instructions, operands), operands))
        self._set_weights(internal_weights)
        self.register_buffer("output_mask", self._reached())
        self.upper = upper_triangles(self._groups)

    def set_paths(self, instructions: Iterable[Instruction]) -> None:
        """Make what evaluates paths; weights and output stay as they are.

        Parameters
        ----------
        instructions : iterable of Instruction
            Resolved, with the factors of paths.
        """
        self.instructions = tuple(instructions)
        operands = (self.irreps_in1, self.irreps_in2, self.irreps_out)
        self._groups = group_paths(self.instructions, operands)
        tables = group_tables(self.instructions, operands)
        self.tables = Tables(**{f"group{n}": table for n, table in enumerate(tables)})
        self.channelwise = channelwise_paths(self.instructions, operands)
        self.connected = connected_paths(
            self.instructions, operands, shared_weights=self.shared_weights
        )

    def forward(self, x: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Multiply two features.

        Parameters
        ----------
        x : Tensor, (..., irreps_in1.dim), floating
            First input.
        y : Tensor, (..., irreps_in2.dim), floating
            Second input.
        weight : Tensor, (..., weight_numel) or (weight_numel,), floating, optional
            One row per sample, or, where ``shared_weights``, one for all; instead of the weights
            that the module may own. Leading axes of all three broadcast.

        Returns
        -------
        Tensor, (..., irreps_out.dim), dtype of ``x``
            The product.

        Raises
        ------
        TypeError
            If dtypes are not floating or differ.
        ValueError
            If shapes do not fit, devices differ, or weights are missing.
        """
        weight = self._choose_weight(weight)
        batch = self.check_inputs(x, y, weight)
        if self.channelwise is not None and ChannelwisePaths.accepts(x):
            out: Tensor = self.channelwise(x, y, weight, batch)
            return out
        if self.connected is not None and self.connected.accepts(x, weight):
            out = self.connected(x, y, weight, batch)
            return out
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

    def multiply_adds(self) -> int:
        """Count multiplications that are added up, for one sample.

        Returns
        -------
        int
            Of couplings and weights, as implemented; products that are not added up do not count.
        """
        return sum(group.multiply_adds() for group in self._groups)

    def weight_view_for_instruction(self, instruction: int, weight: Tensor | None = None) -> Tensor:
        """View the weights of one path.

        Parameters
        ----------
        instruction : int
            Its position in ``instructions``.
        weight : Tensor, (..., weight_numel), optional
            Flat weights; those of the module by default.

        Returns
        -------
        Tensor, (..., *path_shape)
            Shares memory with the flat weights.

        Raises
        ------
        ValueError
            If the path has no weights, or the module none of its own.
        """
        path = self.instructions[instruction]
        if not path.has_weight:
            raise ValueError(f"instructions[{instruction}] has no weights: {path}")
        flat = self._choose_weight(weight)
        if flat is None or flat.shape[-1] != self.weight_numel:
            got = "none" if flat is None else tuple(flat.shape)
            raise ValueError(f"weight must be (..., {self.weight_numel}), got {got}")
        before = (p for p in self.instructions[:instruction] if p.has_weight)
        start = sum(math.prod(p.path_shape) for p in before)
        block = flat.narrow(-1, start, math.prod(path.path_shape))
        return block.view(*flat.shape[:-1], *path.path_shape)

    def weight_views(self, weight: Tensor | None = None) -> Iterator[Tensor]:
        """View the weights of every weighted path, in order.

        Parameters
        ----------
        weight : Tensor, (..., weight_numel), optional
            Flat weights; those of the module by default.

        Yields
        ------
        Tensor, (..., *path_shape)
            Shares memory with the flat weights.
        """
        for n, path in enumerate(self.instructions):
            if path.has_weight:
                yield self.weight_view_for_instruction(n, weight)

    def extra_repr(self) -> str:
        """Return what ``print(module)`` shows."""
        paths = len(self.instructions)
        return f"{super().extra_repr()}, {paths} paths, {self.weight_numel} weights"

    def _couple(self, n: int, x: Tensor, y: Tensor) -> Tensor:
        """Couple two terms by the table of a group: (..., channels, components), or reversed."""
        table = self.tables[f"group{n}", x.dtype]
        couple = couple_matched if self._groups[n].matched else couple_pairs
        return couple(x, y, table, self.layout)

    def _choose_weight(self, weight: Tensor | None) -> Tensor | None:
        if weight is None:
            if self.weight_numel > 0 and not self.internal_weights:
                raise ValueError(f"weight (..., {self.weight_numel}) is missing: none are internal")
            return self.weight if self.weight_numel > 0 else None
        if self.shared_weights and weight.ndim != 1:
            expected = f"({self.weight_numel},), for shared_weights is True"
            raise ValueError(f"weight must be {expected}, got {tuple(weight.shape)}")
        return weight

    def _set_weights(self, internal: bool | None) -> None:
        """Decide as e3nn does who owns the weights, and draw them."""
        weighted = [path for path in self.instructions if path.has_weight]
        self.weight_numel = sum(math.prod(path.path_shape) for path in weighted)
        self.internal_weights = internal
        if internal is None:
            self.internal_weights = self.shared_weights and bool(weighted)
        if self.internal_weights and not self.shared_weights:
            raise ValueError("internal_weights must be shared: shared_weights is False")
        if self.internal_weights and self.weight_numel > 0:
            self.weight = nn.Parameter(torch.randn(self.weight_numel))
        else:
            self.register_buffer("weight", torch.empty(0))

    def _reached(self) -> Tensor:
        reached = {p.i_out for p in self.instructions if p.path_weight and 0 not in p.path_shape}
        terms = enumerate(self.irreps_out.terms)
        parts = [
            torch.full((mul * (2 * l + 1),), float(n in reached)) for n, (mul, (l, _)) in terms
        ]
        return torch.cat([torch.empty(0), *parts])

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        """Load the state of e3nn too, whose tables must have the signs of those here."""
        own, tables = without_tables(state_dict, prefix)
        operands = (self.irreps_in1, self.irreps_in2, self.irreps_out)
        *_, error_messages = args
        error_messages.extend(differing_couplings(tables, self.instructions, operands))
        super()._load_from_state_dict(own, prefix, *args)
