"""Base of norms of irreps: centering, size, scale and shift."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from equigeo.nn._irreps_argument import IrrepsLike, irreps_argument
from equigeo.nn.index_tables import IndexTables
from equigeo.nn.irreps_layer import IrrepsLayer
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.ops.runtime.storage import HALF, in_float32
from equigeo.ops.runtime.torch_internals import plain_tensors
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
            rounded: Tensor = in_float32(self._normalize, inputs)
            return rounded
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
        """Return the options for ``print(module)``."""
        return f"{self.irreps_in}, {self.normalization}, eps={self.eps:g}"


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
