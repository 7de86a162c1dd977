"""Functions of distances: bases, cutoff and radial networks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from equigeo._core.brief import shown
from equigeo._core.checks import check_tensor, checked_integer
from equigeo._core.tensors import computes_in_float32, rounded_once
from equigeo.nn.activation import normalized
from equigeo.nn.state import SavedOptions
from equigeo.nn.tables import Tables, at_default_device

_NEAR = 0.5
# Series of sin(x)/x in powers of x^2; the first omitted term is below 1e-19 for |x| < 0.5.
_SERIES = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(8))


class RadialFunction(nn.Module, ABC):
    """Base of smooth functions of distances up to a cutoff."""

    def __init__(self, cutoff: float) -> None:
        super().__init__()
        self.cutoff = checked_cutoff(cutoff)

    @computes_in_float32
    def forward(self, distances: Tensor) -> Tensor:
        """Evaluate at distances ``(...)``, to ``(...)`` or ``(..., num_basis)``."""
        check_tensor("distances", distances)
        if not distances.is_floating_point():
            raise TypeError(f"distances must be floating, got {distances.dtype}")
        return rounded_once(self._evaluate, [distances])

    @abstractmethod
    def _evaluate(self, distances: Tensor) -> Tensor:
        """Evaluate in float32 or float64."""


class RadialBasis(RadialFunction, SavedOptions, ABC):
    """Base of several functions of distances, each with one number that may be trained."""

    def __init__(
        self,
        cutoff: float,
        numbers: Tensor,  # (num_basis,), initial values
        name: str,  # name of the numbers and of the parameter
        *,
        trainable: bool,
    ) -> None:
        super().__init__(cutoff)
        self.num_basis = len(numbers)
        self.trainable = trainable
        self._name = name
        if trainable:
            first = at_default_device(numbers).to(torch.get_default_dtype())
            self.register_parameter(name, nn.Parameter(first))
        else:
            self.tables = Tables(**{name: numbers})

    def _saved_options(self) -> Mapping[str, Any]:
        return {"cutoff": self.cutoff}

    def _numbers(self, dtype: torch.dtype) -> Tensor:
        """Return the number of each function."""
        if self.trainable:
            parameter: Tensor = getattr(self, self._name)
            return parameter.to(dtype)
        return self.tables[self._name, dtype]

    def extra_repr(self) -> str:
        trained = ", trainable" if self.trainable else ""
        return f"{self.num_basis} functions, cutoff={self.cutoff:g}{trained}"


class BesselBasis(RadialBasis):
    r"""Spherical Bessel functions of degree 0 that vanish at the cutoff, as in MACE.

    .. math:: b_n(r) = \sqrt{2/r_c}\; \frac{\sin(n \pi r / r_c)}{r}, \quad n = 1, \dots, N

    (Gasteiger, Groß, Günnemann, "Directional Message Passing for Molecular Graphs", 2020). They are
    orthonormal on :math:`[0, r_c]` with weight :math:`r^2` and nonzero beyond: multiply by
    :class:`PolynomialCutoff`. NequIP divides them by :math:`(\pi/r_c) \sqrt{2/r_c}`.

    Parameters
    ----------
    cutoff : float
        :math:`r_c`, in the unit of the distances.
    num_basis : int
        :math:`N`.
    trainable : bool
        Whether ``frequencies``, :math:`n \pi / r_c`, is a parameter. Trained functions no longer
        vanish at the cutoff.

    Examples
    --------
    >>> BesselBasis(5.0, 3)(torch.tensor([2.5], dtype=torch.float64)).round(decimals=4).abs()
    tensor([[0.2530, 0.0000, 0.2530]], dtype=torch.float64)
    """

    def __init__(self, cutoff: float, num_basis: int = 8, *, trainable: bool = False) -> None:
        num_basis = checked_integer("num_basis", num_basis, 1)
        multiples = torch.arange(1, num_basis + 1, dtype=torch.float64, device="cpu")
        frequencies = multiples * (math.pi / checked_cutoff(cutoff))
        super().__init__(cutoff, frequencies, "frequencies", trainable=trainable)

    def _evaluate(self, distances: Tensor) -> Tensor:
        frequencies = self._numbers(distances.dtype)
        waves = sin_over(distances[..., None] * frequencies)
        return waves * (frequencies * math.sqrt(2 / self.cutoff))


class GaussianBasis(RadialBasis):
    r"""Gaussians with equally spaced centers from 0 to the cutoff.

    .. math:: g_k(r) = \exp\bigl(-(r - \mu_k)^2 / 2 \sigma^2\bigr), \quad
        \mu_k = k \Delta, \quad \sigma = w \Delta, \quad \Delta = r_c / (K - 1)

    (Schütt et al., "SchNet", 2017). They do not vanish at the cutoff: multiply by
    :class:`PolynomialCutoff`. Other arguments: see :class:`BesselBasis`.

    Parameters
    ----------
    num_basis : int
        :math:`K`, at least two.
    width : float
        :math:`w`: standard deviation over spacing. SchNet and MACE use 1, fairchem 2.
    trainable : bool
        Whether ``centers``, :math:`\mu_k`, is a parameter.

    Examples
    --------
    >>> GaussianBasis(5.0, 3)(torch.tensor([0.0, 2.5], dtype=torch.float64)).round(decimals=4)
    tensor([[1.0000, 0.6065, 0.1353],
            [0.6065, 1.0000, 0.6065]], dtype=torch.float64)
    """

    def __init__(
        self, cutoff: float, num_basis: int = 128, *, width: float = 1.0, trainable: bool = False
    ) -> None:
        num_basis = checked_integer("num_basis", num_basis, 2)
        spacing = checked_cutoff(cutoff) / (num_basis - 1)
        if not 0 < width < math.inf:
            raise ValueError(f"width must be positive and finite, got {width}")
        centers = torch.arange(num_basis, dtype=torch.float64, device="cpu") * spacing
        super().__init__(cutoff, centers, "centers", trainable=trainable)
        self.width = float(width)
        self._deviation = width * spacing

    def _evaluate(self, distances: Tensor) -> Tensor:
        z = (distances[..., None] - self._numbers(distances.dtype)) / self._deviation
        return torch.exp(-0.5 * z.square())


class PolynomialCutoff(RadialFunction):
    r"""Polynomial envelope that decreases from 1 to 0 at the cutoff and is zero beyond.

    .. math:: u(x) = 1 - \tfrac{(p+1)(p+2)}{2} x^p + p(p+2) x^{p+1} - \tfrac{p(p+1)}{2} x^{p+2},
        \quad x = r / r_c < 1

    It has two continuous derivatives: near the cutoff it is :math:`\tfrac{1}{6} p(p+1)(p+2)
    (1-x)^3`, and near 0 it differs from 1 by order p. Reference: see :class:`BesselBasis`.

    Parameters
    ----------
    cutoff : float
        :math:`r_c`, in the unit of the distances.
    p : int
        At least two; 6 in NequIP, 5 in MACE and fairchem.

    Examples
    --------
    >>> import torch
    >>> PolynomialCutoff(5.0)(torch.tensor([0.0, 2.5, 4.5, 5.0, 6.0], dtype=torch.float64))
    tensor([1.0000, 0.8555, 0.0381, 0.0000, 0.0000], dtype=torch.float64)
    """

    def __init__(self, cutoff: float, p: int = 6) -> None:
        super().__init__(cutoff)
        self.p = checked_integer("p", p, 2)

    def _evaluate(self, distances: Tensor) -> Tensor:
        x = (distances / self.cutoff).clamp(max=1.0)
        # 1 - u vanishes to order p, u to order 3 at 1: u = (1 - x)^3 sum_{k<p} C(k + 2, 2) x^k
        rest = x.new_full((), math.comb(self.p + 1, 2))
        for k in reversed(range(self.p - 1)):
            rest = rest * x + math.comb(k + 2, 2)
        left = 1 - x
        return left * left * left * rest

    def extra_repr(self) -> str:
        return f"cutoff={self.cutoff:g}, p={self.p}"


class RadialMLP(nn.Module):
    r"""Layers of weights and activations without biases, as ``e3nn.nn.FullyConnectedNet``.

    Each layer multiplies by :math:`W / \sqrt{h\,\mathrm{var}}` with :math:`W` drawn from N(0, 1)
    and h inputs. Parameters are named as in e3nn (``layer0.weight``, ...).

    Parameters
    ----------
    sizes : sequence of int
        Input, hidden and output sizes, at least two.
    act : callable, optional
        Between layers; scaled by :class:`NormalizedActivation` (default: linear network).
    variance_in, variance_out : float
        Second moments of the inputs and of the outputs.
    out_act : bool
        Whether the activation also follows the last layer.

    Examples
    --------
    >>> mlp = RadialMLP([8, 64, 64, 20], torch.nn.functional.silu)
    >>> mlp(torch.ones(5, 8)).shape, list(mlp.state_dict())
    (torch.Size([5, 20]), ['layer0.weight', 'layer1.weight', 'layer2.weight'])
    """

    def __init__(
        self,
        sizes: Sequence[int],
        act: Callable[[Tensor], Tensor] | None = None,
        variance_in: float = 1.0,
        variance_out: float = 1.0,
        out_act: bool = False,
    ) -> None:
        super().__init__()
        if len(sizes) < 2 or min(sizes) < 0:
            raise ValueError(f"sizes must be two or more numbers >= 0, got {list(sizes)}")
        if not (variance_in > 0 and variance_out > 0):
            raise ValueError(f"variances must be positive, got {variance_in} and {variance_out}")
        self.sizes = tuple(sizes)
        act = None if act is None else normalized(act)
        for i, (size_in, size_out) in enumerate(pairwise(sizes)):
            last = i == len(sizes) - 2
            layer = _Layer(
                size_in,
                size_out,
                act if out_act or not last else None,
                variance_in if i == 0 else 1.0,
                variance_out if last else 1.0,
            )
            self.add_module(f"layer{i}", layer)

    def forward(self, x: Tensor) -> Tensor:
        """Map invariant features ``(..., sizes[0])`` to weights ``(..., sizes[-1])``."""
        check_tensor("x", x)
        if x.shape[-1:] != (self.sizes[0],):
            raise ValueError(f"x must be (..., {self.sizes[0]}), got {tuple(x.shape)}")
        for layer in self.children():
            x = layer(x)
        return x


class _Layer(SavedOptions):
    """A scaled matrix with an optional activation."""

    def __init__(
        self,
        size_in: int,
        size_out: int,
        act: Callable[[Tensor], Tensor] | None,
        variance_in: float,
        variance_out: float,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size_in, size_out))
        self.act = act
        # A sum of size_in products with weights from N(0, 1) has variance size_in * variance_in.
        self._scale_in = (max(size_in, 1) * variance_in) ** -0.5
        self._scale_out = variance_out**0.5

    def forward(self, x: Tensor) -> Tensor:
        if self.act is None:
            return x @ (self.weight * (self._scale_in * self._scale_out))
        return self.act(x @ (self.weight * self._scale_in)) * self._scale_out

    def _saved_options(self) -> Mapping[str, Any]:
        scales = [self._scale_in, self._scale_out]
        return {"scales": scales, "activation": self.act is not None}

    def extra_repr(self) -> str:
        return " -> ".join(str(size) for size in self.weight.shape)


def checked_cutoff(cutoff: float) -> float:
    """Validate a positive finite length and return it as a float."""
    if isinstance(cutoff, bool) or not isinstance(cutoff, Real):
        raise TypeError(f"cutoff must be a number, got {shown(cutoff)}")
    if not 0 < float(cutoff) < math.inf:
        raise ValueError(f"cutoff must be positive and finite, got {cutoff}")
    return float(cutoff)


def sin_over(x: Tensor) -> Tensor:
    """Return sin(x) / x, 1 at zero, with exact derivatives of all orders unlike ``torch.sinc``."""
    near = x.abs() < _NEAR
    # Each branch gets only arguments at which its derivatives are finite.
    square = torch.where(near, x, 0.0).square()
    far = torch.where(near, 1.0, x)
    series = torch.full_like(x, _SERIES[-1])
    for coefficient in _SERIES[-2::-1]:
        series = series * square + coefficient
    return torch.where(near, series, far.sin() / far)
