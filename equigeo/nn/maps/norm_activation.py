"""Nonlinearity for features of any group, by functions of their lengths."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor, nn

from equigeo.nn._irreps_argument import IrrepsLike, representation_argument
from equigeo.nn.activation import Function
from equigeo.nn.maps.copies import Copies
from equigeo.nn.normalized_activation import name_of
from equigeo.nn.state import SavedOptions
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.ops.runtime.storage import rounded_once
from equigeo.reps import Representation


@final
class NormActivation(SavedOptions):
    r"""Multiply each copy of a representation by a function of its length.

    .. math:: z_u = \phi(n_u + b_u)\, x_u / n_u, \qquad n_u = \sqrt{|x_u|^2 + \epsilon^2}

    with u over the copies of all summands, or :math:`\phi(n_u + b_u)\, x_u` without ``normalize``
    (Thomas et al., "Tensor field networks", 2018). For Irreps it is ``e3nn.nn.NormActivation``,
    with lengths smoothed near zero where e3nn clamps. Equivariant under all elements of the group.

    Parameters
    ----------
    rep_in : Representation, e3nn.o3.Irreps or str
        Any orthogonal representation of any group; also that of the output.
    scalar_nonlinearity : callable, Tensor -> Tensor
        The elementwise function :math:`\phi`, not scaled; a module is registered.
    normalize : bool
        Whether to divide features by their lengths.
    epsilon : float
        Positive; makes gradients at zero finite.
    bias : bool
        Whether each copy has a trainable bias, initially zero.

    Examples
    --------
    >>> from equigeo.groups import O
    >>> from equigeo.reps import TensorRep
    >>> layer = NormActivation(2 * TensorRep(O(2)), torch.tanh)
    >>> layer(torch.tensor([3.0, 4.0, 0.0, 0.0])).round(decimals=3)
    tensor([0.6000, 0.8000, 0.0000, 0.0000])
    """

    def __init__(
        self,
        rep_in: Representation | IrrepsLike,
        scalar_nonlinearity: Function,
        normalize: bool = True,
        epsilon: float = 1e-5,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.rep_in = self.rep_out = representation_argument("rep_in", rep_in)
        if not 0 < epsilon < math.inf:
            raise ValueError(f"epsilon must be positive and finite, got {epsilon}")
        self.scalar_nonlinearity = scalar_nonlinearity
        self.normalize, self.epsilon = normalize, float(epsilon)
        self.copies = Copies(self.rep_in)
        self.biases = nn.Parameter(torch.zeros(self.copies.count)) if bias else None

    @computes_in_float32
    def forward(self, features: Tensor) -> Tensor:
        """Apply the function to all lengths of ``features`` ``(..., rep_in.dim)``."""
        self.rep_in.check_features(features)
        inputs = [features] if self.biases is None else [features, self.biases]
        out: Tensor = rounded_once(self._activate, inputs)
        return out

    def _activate(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        lengths = (self.copies.squares(x) + self.epsilon**2).sqrt()
        # The sum copies the lengths even without a bias, since the function may work in place.
        factors = self.scalar_nonlinearity(lengths + (0.0 if bias is None else bias))
        return self.copies.scale(x, factors / lengths if self.normalize else factors)

    def _saved_options(self) -> Mapping[str, Any]:
        return {"normalize": self.normalize}

    def extra_repr(self) -> str:
        """Return the options for ``print(module)``."""
        return f"{self.rep_in}, {name_of(self.scalar_nonlinearity)}, normalize={self.normalize}"
