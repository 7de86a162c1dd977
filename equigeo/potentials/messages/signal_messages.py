"""Messages by products of functions on the sphere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from equigeo import tensor_products as tp
from equigeo.nn import Tables
from equigeo.nn.index_tables import IndexTables
from equigeo.potentials.messages.sum_messages import (
    EdgeFeatures,
    Messages,
    signal_of,
    sum_at_targets,
    weights_of_distances,
)
from equigeo.reps import Irreps

Signals = tp.GauntTensorProduct | tp.CurlTensorProduct | tp.MatrixTensorProduct

_ZERO = 1e-20  # squared strengths are rounding below, and at least 1e-6 above


@final
class SignalMessages(Messages):
    """Products of feature channels and edge vectors, both as functions on the sphere."""

    degrees: Tensor

    def __init__(
        self,
        irreps_in: Irreps,  # terms of one multiplicity
        lmax: int,  # of harmonics and messages
        basis: int,  # number of radial functions
        hidden: tuple[int, ...],  # widths of the radial networks
        names: Sequence[str],  # "gaunt", "curl" (Poisson bracket), "matrix" (only SO(3))
    ) -> None:
        # m_ic = sum_{e: j -> i} h_jc * F_c(v_e) with F_c(v) = sum_lm R_cl(|v|) Y_lm(v). Features of
        # the other parity than their degree are a second function.
        channels, held = irreps_in.terms[0][0], _degrees(irreps_in)
        made = [
            (parity, _product(name, (max(degrees), lmax), parity))
            for name in names
            for parity, degrees in held.items()
            if name != "curl" or max(degrees) > 0  # a bracket with a constant is zero
        ]
        scales = [_scales(product, held[parity]) for parity, product in made]
        kinds = [
            ir
            for (_, product), scale in zip(made, scales, strict=True)
            for _, ir in product.irreps_out
            if ir[0] in scale
        ]
        super().__init__(irreps_in, Irreps([(channels, ir) for ir in kinds]))
        self.channels = channels
        self.products = nn.ModuleList(product for _, product in made)
        self._operands = [parity for parity, _ in made]
        self._held = held
        self._kept = [list(scale) for scale in scales]
        self.radial = weights_of_distances(basis, hidden, len(made) * channels * (lmax + 1))
        numbers = torch.arange(lmax + 1, device="cpu")
        self.positions = IndexTables(degrees=numbers.repeat_interleave(2 * numbers + 1))
        self.tables = Tables(**{f"scale{k}": _spread(scale) for k, scale in enumerate(scales)})

    def forward(self, h: Tensor, edge: EdgeFeatures) -> Tensor:
        """Multiply functions and sum the products at targets."""
        weights = self.radial(edge.radial).unflatten(-1, (len(self.products), self.channels, -1))
        sent = {
            parity: signal_of(h, self.irreps_in, parity, max(held)).index_select(0, edge.source)
            for parity, held in self._held.items()
        }
        parts, degrees = [], self.positions["degrees"]
        for k, product in enumerate(self.products):
            filters = weights[:, k].index_select(-1, degrees) * edge.harmonics[:, None]
            messages = product(sent[self._operands[k]], filters)
            sums = sum_at_targets(messages, edge.edges) * self.tables[f"scale{k}", h.dtype]
            parts += [sums[..., l * l : (l + 1) ** 2].flatten(1) for l in self._kept[k]]
        return torch.cat(parts, dim=-1)


def _degrees(irreps: Irreps) -> dict[int, list[int]]:
    """Return degrees by value parity: the parity of the irrep times that of its degree."""
    found: dict[int, list[int]] = {}
    for _, (l, p) in irreps:
        found.setdefault(p * (-1) ** l, []).append(l)
    return found


def _product(name: str, degrees: tuple[int, int], parity: int) -> Signals:
    lmax1, lmax2 = degrees
    if name == "gaunt":
        return tp.GauntTensorProduct(lmax1, lmax2, lmax2, parity1=parity)
    if name == "curl":
        return tp.CurlTensorProduct(lmax1, lmax2, lmax2, parity1=parity)
    return tp.MatrixTensorProduct(lmax1, lmax2, lmax2, normalization="component")


def _scales(product: Signals, held: list[int]) -> dict[int, float]:
    """Return the scale of each degree to unit variance, for operands of unit variance."""
    degrees2 = [l for _, (l, _) in product.irreps_in2]
    scales = {}
    for _, (l, _) in product.irreps_out:
        strengths = [product.coefficient(l1, l2, l) for l1 in held for l2 in degrees2]
        # A coupling tensor of unit norm contributes 1 / (2 l + 1) to each component.
        variance = sum(strength**2 for strength in strengths) / (2 * l + 1)
        if variance > _ZERO:
            scales[l] = 1 / math.sqrt(variance)
    return scales


def _spread(scales: dict[int, float]) -> Tensor:
    """Return the scale of each component of a signal; degrees that are never made are not read."""
    values = [scales.get(l, 0.0) for l in range(max(scales) + 1) for _ in range(2 * l + 1)]
    return torch.tensor(values, dtype=torch.float64)
