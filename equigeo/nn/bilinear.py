"""Bilinear maps between any three representations of one group."""

from __future__ import annotations

from functools import partial
from typing import final

import torch
from torch import Tensor, nn

from equigeo._core.tensors import autocast_active, rounded_once
from equigeo.nn.module import IrrepsLike, check_summands_reached, representation_argument
from equigeo.nn.summand_mixing import LinearInstruction, SummandMixing, sizes
from equigeo.nn.weights import (
    check_operands,
    choose_weights,
    hold_weights,
    leading_axes,
    own_weights,
)
from equigeo.reps import Representation


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
