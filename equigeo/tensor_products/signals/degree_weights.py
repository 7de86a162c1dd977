"""Learnable scales of the degrees of a signal."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from equigeo._integers import checked_integer
from equigeo.nn.index_tables import IndexTables
from equigeo.nn.irreps_layer import IrrepsLayer
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.ops.runtime.checks import check_tensor
from equigeo.ops.runtime.torch_internals import plain_tensors
from equigeo.reps import Irreps


@final
class DegreeWeights(IrrepsLayer):
    """Multiply each degree of a signal by a weight, optionally per channel.

    With one module per input and one for the output of a product without weights, the path of
    degrees l1, l2, l3 has the weight ``w1[l1] w2[l2] w3[l3]``.

    Parameters
    ----------
    lmax : int
        Largest degree of the signal.
    channels : int, optional
        Length of the axis before the coefficients, which then has weights of its own.
    parity : {1, -1}
        Of the values of the signal.

    Attributes
    ----------
    weight : Parameter, (lmax + 1,) or (channels, lmax + 1)
        Initialized to ones.

    Examples
    --------
    >>> weights = DegreeWeights(1)
    >>> _ = weights.weight.data.copy_(torch.tensor([2.0, 3.0]))
    >>> weights(torch.ones(4)).tolist()
    [2.0, 3.0, 3.0, 3.0]
    """

    def __init__(self, lmax: int, channels: int | None = None, *, parity: int = 1) -> None:
        super().__init__()
        lmax = checked_integer("lmax", lmax)
        self.irreps = self.irreps_in = self.irreps_out = Irreps.signal(lmax, parity)
        if channels is not None and (channels := checked_integer("channels", channels)) < 0:
            raise ValueError(f"channels must not be negative, got {channels}")
        self.channels = channels
        shape = (lmax + 1,) if channels is None else (channels, lmax + 1)
        self.weight = nn.Parameter(torch.ones(shape))
        # Of every coefficient of a signal.
        with plain_tensors():
            degree = torch.cat([torch.full((2 * l + 1,), l) for l in range(lmax + 1)])
        self.positions = IndexTables(degree=degree)

    @computes_in_float32
    def forward(self, x: Tensor) -> Tensor:
        """Scale signals (..., (lmax + 1)^2) or (..., channels, (lmax + 1)^2)."""
        check_tensor("x", x)
        axes = (self.irreps.dim,) if self.channels is None else (self.channels, self.irreps.dim)
        if x.dtype != self.weight.dtype:
            raise TypeError(f"x must have the dtype of weight, {self.weight.dtype}, got {x.dtype}")
        if x.shape[-len(axes) :] != axes:
            expected = ", ".join(map(str, ("...", *axes)))
            raise ValueError(f"x must be ({expected}), got {tuple(x.shape)}")
        return x * self.weight[..., self.positions["degree"]]

    def extra_repr(self) -> str:
        """Return the options for ``print(module)``."""
        return f"{self.irreps}, channels={self.channels}"
