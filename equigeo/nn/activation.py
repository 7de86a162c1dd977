"""Functions of scalar features and of lengths."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from equigeo._core.tensors import computes_in_float32, plain_tensors, rounded_once
from equigeo.nn.channel_mixing import Copies
from equigeo.nn.module import IrrepsLayer, IrrepsLike, irreps_argument, representation_argument
from equigeo.nn.state import SavedOptions
from equigeo.reps import Irreps, Representation
from equigeo.reps.irreps import Layout

Function = Callable[[Tensor], Tensor]


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
        return f"{name_of(self.function)}, scale={self.scale:.6g}"


class Activation(IrrepsLayer):
    """Apply a function to each scalar term and leave the other terms unchanged.

    Functions are scaled by :class:`NormalizedActivation`; pass one of those to choose the scale. An
    even function maps pseudoscalars ``0o`` to ``0e``, an odd one to ``0o``; others raise
    ``ValueError``. Equivariant under O(3), improper elements included.

    Parameters
    ----------
    irreps_in : Irreps, e3nn.o3.Irreps or str
        Irreps of the input.
    acts : sequence of (callable or None)
        One entry per term; None for the identity.
    layout : {"mul_ir", "ir_mul"}
        Order of axes inside a term.

    Examples
    --------
    >>> str(Activation("4x0o + 2x1o", [torch.abs, None]).irreps_out)
    '4x0e+2x1o'
    """

    def __init__(
        self, irreps_in: IrrepsLike, acts: Sequence[Function | None], *, layout: Layout = "mul_ir"
    ) -> None:
        super().__init__()
        self.irreps_in = irreps_argument("irreps_in", irreps_in, layout)
        if len(acts) != len(self.irreps_in.terms):
            raise ValueError(
                f"acts must have one entry per term of {self.irreps_in}, "
                f"{len(self.irreps_in.terms)}, got {len(acts)}"
            )
        terms, modules = [], []
        for (mul, (l, p)), act in zip(self.irreps_in, acts, strict=True):
            if act is not None:
                p = parity_after(mul, l, p, act)
            terms.append((mul, (l, p)))
            modules.append(nn.Identity() if act is None else normalized(act))
        self.irreps_out = Irreps(terms, layout)
        self.acts = nn.ModuleList(modules)

    def forward(self, features: Tensor) -> Tensor:
        """Apply each function to its term of ``features`` ``(..., irreps_in.dim)``."""
        self.irreps_in.check_features(features)
        sizes = [mul * (2 * l + 1) for mul, (l, _) in self.irreps_in]
        pieces = zip(self.acts, features.split(sizes, -1), strict=True)
        return torch.cat([features[..., :0], *(act(piece) for act, piece in pieces)], dim=-1)


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
        return rounded_once(self._activate, inputs)

    def _activate(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        lengths = (self.copies.squares(x) + self.epsilon**2).sqrt()
        # The sum copies the lengths even without a bias, since the function may work in place.
        factors = self.scalar_nonlinearity(lengths + (0.0 if bias is None else bias))
        return self.copies.scale(x, factors / lengths if self.normalize else factors)

    def _saved_options(self) -> Mapping[str, Any]:
        return {"normalize": self.normalize}

    def extra_repr(self) -> str:
        return f"{self.rep_in}, {name_of(self.scalar_nonlinearity)}, normalize={self.normalize}"


def same_function(one: nn.Module, other: nn.Module) -> bool:
    """Return whether two activations are the same function with the same scale, or identities."""
    if isinstance(one, NormalizedActivation) and isinstance(other, NormalizedActivation):
        return one.function is other.function and one.scale == other.scale
    return isinstance(one, nn.Identity) and isinstance(other, nn.Identity)


def name_of(function: Callable[[Tensor], Tensor]) -> str:
    """Return the name of a function, or of its type."""
    return getattr(function, "__name__", type(function).__name__)


def second_moment(
    # elementwise; called in float64, or in the dtype and on the device of a module
    function: Callable[[Tensor], Tensor],
) -> float:
    """Return the mean of f(z)^2 over standard normal z, to about 15 digits for smooth f."""
    like = next(function.parameters(), None) if isinstance(function, nn.Module) else None
    with plain_tensors(), torch.no_grad():
        # Gauss-Legendre panels of length one, so that kinks at integers cost no accuracy.
        nodes, weights = (torch.tensor(values) for values in _normal_quadrature())
        values = function(nodes if like is None else nodes.to(like))
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


def normalized(act: Function) -> NormalizedActivation:
    """Scale a function, unless it is scaled."""
    return act if isinstance(act, NormalizedActivation) else NormalizedActivation(act)


def parity_after(mul: int, l: int, p: int, act: Function) -> int:
    """Return the parity of a scalar term after a function, or raise if it has none."""
    term = Irreps([(mul, (l, p))])
    if l != 0:
        raise ValueError(f"a function can act on scalars only, got {name_of(act)} for {term}")
    parity = _parity(act) if p == -1 else 1
    if parity == 0:
        function = act.function if isinstance(act, NormalizedActivation) else act
        raise ValueError(
            f"{term} needs an even or odd function, {name_of(function)} is neither: "
            "its output would have no parity"
        )
    return parity


def _parity(act: Function) -> int:
    """Return 1 for an even function, -1 for an odd one, 0 for any other."""
    like = next(act.parameters(), None) if isinstance(act, nn.Module) else None
    # Points and tolerance are those of e3nn, so that parities agree.
    with torch.no_grad(), plain_tensors():
        x = torch.linspace(0, 10, 256, dtype=torch.float64)
        x = x if like is None else x.to(like)
        right, left = act(x), act(-x)
        if torch.allclose(right, left, rtol=0, atol=1e-5):
            return 1
        return -1 if torch.allclose(right, -left, rtol=0, atol=1e-5) else 0
