"""Linear and bilinear maps between representations of one group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, Literal, final

import torch
from torch import Tensor, nn

from equigeo._core.checks import fit_together
from equigeo._core.tensors import autocast_active, computed_in, rounded_once
from equigeo.nn.channel_mixing import ChannelMixing, join_sums
from equigeo.nn.module import (
    IrrepsLayer,
    IrrepsLike,
    check_reached,
    check_summands_reached,
    irreps_argument,
    reached_mask,
    representation_argument,
)
from equigeo.nn.summand_mixing import (
    LinearInstruction,
    SummandMixing,
    block_table,
    connect_irreps,
    mixing_blocks,
    normalize,
    place_biases,
    sizes,
)
from equigeo.nn.tables import IndexTables, Tables
from equigeo.nn.weights import (
    check_operands,
    choose_weights,
    hold_weights,
    leading_axes,
    own_weights,
)
from equigeo.ops import runs_compiled
from equigeo.ops.products.block_linear import block_linear_op
from equigeo.reps import Irreps, Representation
from equigeo.reps.irreps import Layout

Pairs = Sequence[tuple[int, int]] | None
Biases = bool | Sequence[bool]


class Linear(IrrepsLayer):
    r"""All equivariant linear maps; between irreps those of ``e3nn.o3.Linear``.

    .. math:: z_w = \frac{1}{\sqrt{\mathrm{fan}}} \sum_u W_{uw} x_u + b_w

    The weights are one flat vector: a row-major block ``(mul_in, mul_out)`` for each pair of equal
    irreps, by input and then by output. Weights, biases, normalization and ``state_dict`` are those
    of e3nn in either layout, and of cuEquivariance without biases. If a side is another
    representation, such as ``8 * TensorRep(SL(2))``, blocks are ``(mul_in, maps, mul_out)`` for
    each pair of summands:

    .. math:: z_w = \frac{1}{\sqrt{\mathrm{fan}}} \sum_{u k} W_{ukw}\, A_k x_u + \sum_k b_{kw} v_k

    with :math:`A_k` the matrices of :func:`equigeo.reps.intertwiners` times the square root of the
    dimension of the output, and :math:`v_k` the invariant unit vectors (Finzi et al., "A Practical
    Method for Constructing Equivariant Multilayer Perceptrons for Arbitrary Matrix Groups", 2021).
    Equivariant under all elements of the group. Raises ``ValueError`` if the output would always be
    zero, and warns if some terms would be.

    Parameters
    ----------
    irreps_in, irreps_out : Representation, Irreps, e3nn.o3.Irreps or str
        Representations of one group; text is parsed as irreps of O(3). Terms are not merged:
        ``"3x0e+7x0e"`` is normalized block by block.
    internal_weights : bool, optional
        Whether weights and biases are parameters (default: ``shared_weights``).
    shared_weights : bool, optional
        Whether all samples have the same weights (default: True).
    instructions : sequence of (int, int), optional
        Pairs of input and output terms (or summands) to connect (default: all).
    biases : bool or sequence of bool
        Which output terms have a bias; True for all scalars ``0e``, or all with invariants.
    path_normalization : {"element", "path"}
        Whether fan counts all inputs of an output term, or those of the block times the number of
        blocks.
    layout : {"mul_ir", "ir_mul"}
        Order of axes inside a term of irreps, the same on both sides.

    Attributes
    ----------
    weight, bias : Tensor, (weight_numel,) and (bias_numel,)
        Parameters drawn from N(0, 1) and zeros; empty buffers if external.
    output_mask : Tensor, (irreps_out.dim,)
        0 where the output is always zero, else 1.
    instructions : tuple of LinearInstruction
        Blocks with their final coefficients.

    Examples
    --------
    >>> linear = Linear("4x0e + 16x1o", "8x0e + 8x1o", biases=True)
    >>> linear.weight_numel, linear.bias_numel, linear(torch.zeros(5, 52)).shape
    (160, 8, torch.Size([5, 32]))
    """

    weight: Tensor
    bias: Tensor
    output_mask: Tensor
    _reps: tuple[Representation, Representation]
    _maps: SummandMixing | None

    def __init__(
        self,
        irreps_in: Representation | IrrepsLike,
        irreps_out: Representation | IrrepsLike,
        *,
        internal_weights: bool | None = None,
        shared_weights: bool | None = None,
        instructions: Sequence[tuple[int, int]] | None = None,
        biases: bool | Sequence[bool] = False,
        path_normalization: Literal["element", "path"] = "element",
        layout: Layout = "mul_ir",
    ) -> None:
        super().__init__()
        sides: tuple[Any, Any] = (irreps_in, irreps_out)
        if all(isinstance(side, Irreps) or not isinstance(side, Representation) for side in sides):
            self._connect_irreps(sides, instructions, biases, path_normalization, layout)
        else:
            if layout not in ("mul_ir", "ir_mul"):
                raise ValueError(f'layout must be "mul_ir" or "ir_mul", got {layout!r}')
            self._reps = (
                representation_argument("irreps_in", irreps_in, layout),
                representation_argument("irreps_out", irreps_out, layout),
            )
            self._connect_summands(instructions, biases, path_normalization)
        self.shared_weights, self.internal_weights = own_weights(shared_weights, internal_weights)
        self.weight_numel = sum(sizes(self._blocks))
        self.bias_numel = sum(sizes(self._shifts))
        internal = self.internal_weights
        hold_weights(self, "weight", torch.randn(self.weight_numel), internal=internal)
        hold_weights(self, "bias", torch.zeros(self.bias_numel), internal=internal)
        if self._maps is not None:
            mask = self._maps.output_mask()
        else:
            mask = reached_mask(self.irreps_out, self._reached_terms())
        self.register_buffer("output_mask", mask)

    def _connect_irreps(
        self,
        sides: tuple[Any, Any],
        pairs: Pairs,
        biases: Biases,
        normalization: str,
        layout: Layout,
    ) -> None:
        """Set up the sums over channels: by Schur's lemma, all maps between irreps."""
        self.irreps_in = irreps_argument("irreps_in", sides[0], layout)
        self.irreps_out = irreps_argument("irreps_out", sides[1], layout)
        self._reps = (self.irreps_in, self.irreps_out)
        self._blocks = normalize(
            connect_irreps(self.irreps_in, self.irreps_out, pairs), normalization
        )
        self._shifts = place_biases(self.irreps_out, biases)
        mixing, numel = mixing_blocks(self._blocks, self.irreps_in), sum(sizes(self._blocks))
        self._maps = None
        self._mixing = ChannelMixing(self.irreps_in, self.irreps_out, mixing, numel)
        ins, reached = (self.irreps_in,), self._reached_terms()
        check_reached(type(self).__name__, ins, self.irreps_out, reached, stacklevel=3)
        blocks, factors = block_table(mixing, self.irreps_out)
        places = torch.arange(self.irreps_out.dim, device="cpu")
        slices = self.irreps_out.slices()
        terms = [slices[shift.i_out] for shift in self._shifts]
        shifted = torch.cat([places[:0], *(places[term] for term in terms)])
        self.positions = IndexTables(blocks=blocks, biases=shifted)
        self.tables = Tables(factors=factors)

    def _connect_summands(self, pairs: Pairs, biases: Biases, normalization: str) -> None:
        """Set up the sums of intertwiners, for representations other than irreps."""
        maps = SummandMixing(
            *self._reps, pairs=pairs, biases=biases, path_normalization=normalization
        )
        self._maps, self._blocks, self._shifts = maps, maps.blocks, maps.shifts
        name, reached = type(self).__name__, maps.reached()
        check_summands_reached(name, self._reps[:1], self._reps[1], reached, stacklevel=3)

    @property
    def rep_in(self) -> Representation:
        return self._reps[0]

    @property
    def rep_out(self) -> Representation:
        return self._reps[1]

    @property
    def instructions(self) -> tuple[LinearInstruction, ...]:
        """All blocks of weights, then all biases."""
        return self._blocks + self._shifts

    def forward(
        self, features: Tensor, weight: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        """Map ``features`` ``(..., rep_in.dim)`` to ``(..., rep_out.dim)``.

        ``weight`` ``(..., weight_numel)`` and ``bias`` ``(..., bias_numel)`` replace the internal
        ones and are required if there are none; leading axes broadcast with those of ``features``,
        and there are none if ``shared_weights``.
        """
        shared, numel, shifts = self.shared_weights, self.weight_numel, self.bias_numel
        weight = choose_weights("weight", weight, self.weight, numel, shared=shared)
        bias = choose_weights("bias", bias, self.bias, shifts, shared=shared)
        given = (features, weight if numel else None, bias if shifts else None)
        if fit_together(given, (self._reps[0].dim, numel, shifts)):
            batch = features.shape[:-1]
        else:
            named = {"features": (features, self._reps[0].dim)}
            named |= {"weight": (weight, numel)} if numel else {}
            named |= {"bias": (bias, shifts)} if shifts else {}
            check_operands(named, mixed=autocast_active())
            alone = weight.ndim == bias.ndim == 1
            batch = features.shape[:-1] if alone else leading_axes(named)
        if self._maps is not None:
            return self._maps(features, weight, bias, batch)
        if weight.ndim > 1:
            mixed = rounded_once(partial(self._mix_each, batch=batch), [features, weight])
        elif features.ndim == 2:
            mixed = self._mix_rows(features, weight)
        else:
            rows = features.reshape(prod(features.shape[:-1]), self.irreps_in.dim)
            mixed = self._mix_rows(rows, weight).view(*features.shape[:-1], self.irreps_out.dim)
        if not shifts:
            return mixed
        places = self.positions["biases"]
        shift = bias.new_zeros(*bias.shape[:-1], self.irreps_out.dim)
        return mixed + shift.index_add(-1, places, bias).to(mixed.dtype)

    def _mix_rows(self, rows: Tensor, weight: Tensor) -> Tensor:
        """Mix all rows by shared weights, in one op if it is compiled."""
        as_op = self.weight_numel > 0 and runs_compiled("block_linear", rows.device)
        if not as_op or autocast_active() or rows.dtype != weight.dtype:
            return self._mixing(rows, weight)
        # Read from _modules: attribute access goes through __getattr__, which is slower.
        positions: Any = self._modules["positions"]
        tables: Any = self._modules["tables"]
        blocks, factors = positions["blocks"], tables["factors", computed_in(rows.dtype)]
        ir_mul, dim_out = self.irreps_in.layout == "ir_mul", self.irreps_out.dim
        return block_linear_op(rows, weight[None], blocks, factors, dim_out, ir_mul)

    def _mix_each(self, features: Tensor, weight: Tensor, batch: torch.Size) -> Tensor:
        """Mix each sample by its weights."""
        shapes = [(mul, 2 * l + 1) for mul, (l, _) in self.irreps_in]
        pieces = features.split([mul * dim for mul, dim in shapes], -1)
        arriving: list[list[Tensor]] = [[] for _ in self.irreps_out]
        for ins, w in zip(self._blocks, weight.split(sizes(self._blocks), -1), strict=True):
            mul, dim = shapes[ins.i_in]
            w = w.unflatten(-1, ins.path_shape) * ins.path_weight
            # By Schur's lemma, only channels can be mixed.
            if self.irreps_in.layout == "mul_ir":
                mixed = w.mT @ pieces[ins.i_in].unflatten(-1, (mul, dim))
            else:
                mixed = pieces[ins.i_in].unflatten(-1, (dim, mul)) @ w
            arriving[ins.i_out].append(mixed.flatten(-2))
        dims_out = [mul * (2 * l + 1) for mul, (l, _) in self.irreps_out]
        return join_sums(arriving, dims_out, batch, features)

    def _saved_options(self) -> Mapping[str, Any]:
        return {
            "instruction": [[*i[:2], list(i.path_shape), i.path_weight] for i in self.instructions]
        }

    def _reached_terms(self) -> set[int]:
        return {ins.i_out for ins in self.instructions if 0 not in ins.path_shape}

    def extra_repr(self) -> str:
        rep_in, rep_out = self._reps
        return f"{rep_in} -> {rep_out} | {self.weight_numel} weights"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


@final
class BilinearProduct(nn.Module):
    r"""Every equivariant product of two features, with weights for each map and channel triple.

    .. math:: z_w = \sum_p f_p \sum_{u v k} W^{(p)}_{u v k w}\, A^{(p)}_k (x_u \otimes y_v)

    over all triples p of summands; :math:`A_k` are the orthonormal intertwiners from the Kronecker
    product of two summands to the third, times the square root of its dimension. For Irreps it is
    the Clebsch-Gordan product with the signs, normalization (component, element) and weights of
    :class:`equigeo.tensor_products.FullyConnectedTensorProduct`, which is faster. Weight arguments,
    errors and reference: see :class:`Linear`.

    Parameters
    ----------
    rep_in1, rep_in2, rep_out : Representation, or irreps as text
        Linear, of one group, such as ``8 * TensorRep(SL(2))``.

    Attributes
    ----------
    instructions : tuple of LinearInstruction
        One per triple: the index of the pair of summands, that of the output summand, the shape
        ``(pairs of copies, maps, copies)`` and the factor.

    Examples
    --------
    >>> from equigeo.groups import SL
    >>> from equigeo.reps import TensorRep, Trivial
    >>> vector = TensorRep(SL(2))
    >>> area = BilinearProduct(vector, vector, Trivial(SL(2), 1))  # only the determinant
    >>> x = torch.tensor([[2.0, 1.0]])
    >>> area.weight_numel, bool(area(x, 3 * x).abs() < 1e-6)
    (1, True)
    """

    weight: Tensor

    def __init__(
        self,
        rep_in1: Representation | IrrepsLike,
        rep_in2: Representation | IrrepsLike,
        rep_out: Representation | IrrepsLike,
        *,
        internal_weights: bool | None = None,
        shared_weights: bool | None = None,
    ) -> None:
        super().__init__()
        first = representation_argument("rep_in1", rep_in1)
        second = representation_argument("rep_in2", rep_in2)
        self.rep_in = (first, second)
        self.rep_out = representation_argument("rep_out", rep_out)
        self.shared_weights, internal = own_weights(shared_weights, internal_weights)
        self._mixing = SummandMixing(first @ second, self.rep_out)
        self.weight_numel = sum(sizes(self.instructions))
        reached = self._mixing.reached()
        check_summands_reached(type(self).__name__, self.rep_in, self.rep_out, reached, 2)
        hold_weights(self, "weight", torch.randn(self.weight_numel), internal=internal)

    @property
    def instructions(self) -> tuple[LinearInstruction, ...]:
        """All blocks of weights."""
        return self._mixing.blocks

    def forward(self, x: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Multiply ``x`` and ``y``; leading axes broadcast. Weights: see :meth:`Linear.forward`."""
        shared, numel = self.shared_weights, self.weight_numel
        weight = choose_weights("weight", weight, self.weight, numel, shared=shared)
        named = {"x": (x, self.rep_in[0].dim), "y": (y, self.rep_in[1].dim)}
        if numel:
            named["weight"] = (weight, numel)
        check_operands(named, mixed=autocast_active())
        batch = leading_axes(named)
        multiply = partial(self._multiply, batch=batch)
        return rounded_once(multiply, [x, y, weight])

    def _multiply(self, x: Tensor, y: Tensor, weight: Tensor, batch: torch.Size) -> Tensor:
        pairs = (x[..., :, None] * y[..., None, :]).flatten(-2)
        return self._mixing(pairs, weight, weight[..., :0], batch)

    def extra_repr(self) -> str:
        first, second = self.rep_in
        return f"{first} x {second} -> {self.rep_out} | {self.weight_numel} weights"
