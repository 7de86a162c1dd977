"""Activation functions scaled to unit second moment."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from equigeo.ops.runtime.torch_internals import plain_tensors


class NormalizedActivation(nn.Module):
    r"""Scale a function to second moment 1 for standard normal inputs.

    .. math:: \phi(x) = f(x) \Big/ \sqrt{\textstyle\int f(z)^2 e^{-z^2/2} dz / \sqrt{2\pi}}

    The integral is exact. e3nn estimates it from a million random numbers, to about three digits,
    and does not scale functions within 1e-4 of the right scale.

    Parameters
    ----------
    function : callable, Tensor -> Tensor
        Elementwise. A module is registered and trains; the scale does not follow its parameters.
    scale : float, optional
        Factor on the output, to reproduce models trained elsewhere (default: computed).

    Examples
    --------
    >>> activation = NormalizedActivation(torch.relu)
    >>> round(activation.scale, 12), activation(torch.tensor([-1.0, 1.0])).tolist()
    (1.414213562373, [0.0, 1.4142135381698608])
    """

    def __init__(self, function: Callable[[Tensor], Tensor], scale: float | None = None) -> None:
        super().__init__()
        self.function = function
        if scale is None:
            moment = second_moment(function)
            if not 0 < moment < math.inf:
                raise ValueError(f"{name_of(function)} has second moment {moment}: cannot scale it")
            scale = moment**-0.5
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """Apply the scaled function to each element."""
        # An in-place function would overwrite the features of the caller.
        x = x.clone() if getattr(self.function, "inplace", False) else x
        return self.function(x) * self.scale

    def extra_repr(self) -> str:
        """Return the options for ``print(module)``."""
        return f"{name_of(self.function)}, scale={self.scale:.6g}"


def same_function(one: nn.Module, other: nn.Module) -> bool:
    """Return whether two activations are the same function with the same scale, or identities."""
    if isinstance(one, NormalizedActivation) and isinstance(other, NormalizedActivation):
        return one.function is other.function and one.scale == other.scale
    return isinstance(one, nn.Identity) and isinstance(other, nn.Identity)


def second_moment(
    # elementwise; called in float64, or in the dtype and on the device of a module
    function: Callable[[Tensor], Tensor],
) -> float:
    """Return the mean of f(z)^2 over standard normal z, to about 15 digits for smooth f."""
    like = next(function.parameters(), None) if isinstance(function, nn.Module) else None
    with plain_tensors(), torch.no_grad():
        # Gauss-Legendre panels of length one, so that kinks at integers cost no accuracy.
        nodes, weights = (torch.tensor(values) for values in _normal_quadrature())
        if like is not None:
            return _mean_square(function(nodes.to(like)), weights)
        return _mean_square(function(nodes), weights)


def name_of(function: Callable[[Tensor], Tensor]) -> str:
    """Return the name of a function, or of its type."""
    return getattr(function, "__name__", type(function).__name__)


def _mean_square(values: Tensor, weights: Tensor) -> float:
    return float(values.cpu().double().square() @ weights)


@cache
def _normal_quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Return quadrature nodes and weights for the standard normal density."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    # beyond 14 the density is below 1e-42, so that even exp(z)^2 adds nothing
    panels = np.arange(-14, 14)[:, None]
    z = (panels + (nodes + 1) / 2).ravel()
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return z, np.tile(weights / 2, len(panels)) * density
