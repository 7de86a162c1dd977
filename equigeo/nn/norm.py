"""Layer and RMS normalization of features of any degree."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from equigeo._core.tensors import HALF, computes_in_float32, in_float32, plain_tensors
from equigeo.nn.module import IrrepsLayer, IrrepsLike, irreps_argument
from equigeo.nn.tables import IndexTables
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout

Normalization = Literal["component", "norm"]


class IrrepsNorm(IrrepsLayer, ABC):
    """Base of layers that divide each sample by sizes of its own features."""

    def __init__(
        self,
        irreps: IrrepsLike,
        # size of a term: mean square of components, or of norms
        normalization: Normalization = "component",
        *,
        centering: bool = True,  # whether 0e terms lose their mean over channels
        eps: float = 1e-5,  # added to mean squares, so that gradients at zero are finite
        affine: bool = True,  # whether irreps have trainable factors and 0e terms shifts
        layout: Layout = "mul_ir",
    ) -> None:
        super().__init__()
        self.irreps_in = self.irreps_out = irreps_argument("irreps", irreps, layout)
        if normalization not in ("component", "norm"):
            raise ValueError(f'normalization must be "component" or "norm", got {normalization!r}')
        if not 0 < eps < math.inf:
            raise ValueError(f"eps must be positive and finite, got {eps}")
        self.normalization, self.centering, self.eps = normalization, centering, float(eps)
        self.affine = affine
        self._terms = [(mul, ir) for mul, ir in self.irreps_in if mul]
        shifts = _shifted(self.irreps_in)
        self.positions = IndexTables(channels=_channels(self.irreps_in), shifted=shifts)
        if affine:
            self.weight = nn.Parameter(torch.ones(sum(mul for mul, _ in self._terms)))
            self.bias = nn.Parameter(torch.zeros(len(shifts) if centering else 0))
        else:
            self.register_parameter("weight", None)
            self.register_parameter("bias", None)

    @computes_in_float32
    def forward(self, features: Tensor) -> Tensor:
        """Normalize each sample of ``features`` ``(..., irreps_in.dim)`` independently."""
        self.irreps_in.check_features(features)
        inputs = [features, *((self.weight, self.bias) if self.affine else ())]
        if features.dtype in HALF:
            return in_float32(self._normalize, inputs)
        return self._normalize(*inputs)

    def _normalize(
        self, features: Tensor, weight: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        pieces = features.split([mul * (2 * l + 1) for mul, (l, _) in self._terms], -1)
        if self.centering:
            pieces = tuple(
                piece - piece.mean(-1, keepdim=True) if ir == (0, 1) else piece
                for piece, (_, ir) in zip(pieces, self._terms, strict=True)
            )
        factors = self._factors([self._mean_square(k, piece) for k, piece in enumerate(pieces)])
        scaled = [piece * factor for piece, factor in zip(pieces, factors, strict=True)]
        out = torch.cat([features[..., :0], *scaled], -1)
        if weight is None or bias is None:
            return out
        out = out * weight[self.positions["channels"]]
        if not len(bias):
            return out
        shift = bias.new_zeros(self.irreps_in.dim)
        return out + shift.index_add(0, self.positions["shifted"], bias)

    _default_options: ClassVar[Mapping[str, Any]] = {
        "normalization": "component",
        "centering": True,
    }

    def _saved_options(self) -> Mapping[str, Any]:
        return {"normalization": self.normalization, "centering": self.centering}

    def _mean_square(self, k: int, piece: Tensor) -> Tensor:
        """Return the size of a term, in either layout."""
        square = piece.square().mean(-1, keepdim=True)
        _, (l, _) = self._terms[k]
        return square if self.normalization == "component" else square * (2 * l + 1)

    @abstractmethod
    def _factors(self, squares: list[Tensor]) -> list[Tensor]:
        """Return the factor of each term from the sizes of all."""

    def _factor(self, squares: list[Tensor]) -> Tensor:
        """Return the factor of terms that share a size."""
        total = sum(squares[1:], squares[0])
        if self.normalization == "component":
            total = total / len(squares)
        return (total + self.eps).rsqrt()

    def extra_repr(self) -> str:
        return f"{self.irreps_in}, {self.normalization}, eps={self.eps:g}"


class EquivariantLayerNorm(IrrepsNorm):
    r"""Center scalars and divide each term by its root mean square over channels and components.

    .. math:: x_0 \leftarrow x_0 - \langle x_0 \rangle, \qquad
        z_l = \frac{w\, x_l}{\sqrt{\langle x_{lm}^2 \rangle + \epsilon}} + b

    (Liao, Smidt, "Equiformer", 2023; Liao et al., "EquiformerV2", 2024). Only ``0e`` is centered
    and shifted: pseudoscalars change sign under reflections. Equivariant under O(3).

    Parameters
    ----------
    irreps : Irreps, e3nn.o3.Irreps or str
        Irreps of input and output. Terms are not merged.
    normalization : {"component", "norm"}
        Size of a term: mean square of its components, or of the lengths of its irreps.
    degrees : {"separate", "together"}
        Whether each term is divided by its size, or all but ``0e`` by their mean (their sum for
        ``normalization="norm"``). fairchem: ``layer_norm`` and ``layer_norm_sh``.
    eps : float
        Added to mean squares.
    affine : bool
        Whether irreps have trainable factors (``weight``, ones) and ``0e`` shifts (``bias``,
        zeros).
    layout : {"mul_ir", "ir_mul"}
        Order of axes inside a term.

    Examples
    --------
    >>> import torch
    >>> norm = EquivariantLayerNorm("2x0e + 1x1o", affine=False)
    >>> norm(torch.tensor([5.0, 3.0, 0.0, 4.0, 0.0])).round(decimals=3)
    tensor([ 1.0000, -1.0000,  0.0000,  1.7320,  0.0000])
    """

    def __init__(
        self,
        irreps: IrrepsLike,
        normalization: Normalization = "component",
        *,
        degrees: Literal["separate", "together"] = "separate",
        eps: float = 1e-5,
        affine: bool = True,
        layout: Layout = "mul_ir",
    ) -> None:
        super().__init__(
            irreps, normalization, centering=True, eps=eps, affine=affine, layout=layout
        )
        if degrees not in ("separate", "together"):
            raise ValueError(f'degrees must be "separate" or "together", got {degrees!r}')
        self.degrees = degrees

    _default_options: ClassVar[Mapping[str, Any]] = {
        "normalization": "component",
        "degrees": "separate",
    }

    def _saved_options(self) -> Mapping[str, Any]:
        return {**super()._saved_options(), "degrees": self.degrees}

    def _factors(self, squares: list[Tensor]) -> list[Tensor]:
        if self.degrees == "separate":
            return [self._factor([square]) for square in squares]
        scalar = [ir == (0, 1) for _, ir in self._terms]
        others = [s for s, alone in zip(squares, scalar, strict=True) if not alone]
        common = [self._factor(others)] if others else []
        return [
            self._factor([square]) if alone else common[0]
            for square, alone in zip(squares, scalar, strict=True)
        ]


class EquivariantRMSNorm(IrrepsNorm):
    r"""Divide all features by one root mean square over all terms.

    .. math:: z_l = w\, x_l \Big/ \sqrt{\tfrac{1}{T} \textstyle\sum_{t} \langle x_{t}^2 \rangle
        + \epsilon} \; + b

    with T terms of equal weight and means over the channels and components of each. It is the
    ``rms_norm_sh`` of fairchem, used by UMA (Zhang, Sennrich, "Root Mean Square Layer
    Normalization", 2019; Wood et al., "UMA", 2025). Other arguments: see
    :class:`EquivariantLayerNorm`.

    Parameters
    ----------
    normalization : {"component", "norm"}
        Size of a term: mean square of its components, or of the lengths of its irreps; the latter
        are added over terms, not averaged.
    centering : bool
        Whether ``0e`` terms lose the mean over their channels, and have shifts.

    Examples
    --------
    >>> import torch
    >>> norm = EquivariantRMSNorm("1x0e + 1x1o", affine=False, centering=False)
    >>> norm(torch.tensor([1.0, 0.0, 3.0, 0.0])).round(decimals=3)
    tensor([0.7070, 0.0000, 2.1210, 0.0000])
    """

    def _factors(self, squares: list[Tensor]) -> list[Tensor]:
        return [self._factor(squares)] * len(squares) if squares else []


@plain_tensors()
def _channels(irreps: Irreps) -> Tensor:
    """Return the factor index of each component."""
    owner, start = torch.zeros(irreps.dim, dtype=torch.int64), 0
    for part in irreps.summands():  # positions are (copies, components)
        end = start + len(part.positions)
        owner[part.positions] = torch.arange(start, end)[:, None]
        start = end
    return owner


@plain_tensors()
def _shifted(irreps: Irreps) -> Tensor:
    """Return the components of invariant terms."""
    terms = zip(irreps, irreps.slices(), strict=True)
    found = [torch.arange(place.start, place.stop) for (_, ir), place in terms if ir == (0, 1)]
    return torch.cat([torch.zeros(0, dtype=torch.int64), *found])
