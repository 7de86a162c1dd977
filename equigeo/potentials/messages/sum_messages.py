"""Base class of messages, and sums of messages in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from equigeo.graphs import EdgeIndex
from equigeo.nn import RadialMLP
from equigeo.ops.runtime.torch_internals import plain_tensors
from equigeo.reps import Irreps


@dataclass(frozen=True)
class EdgeFeatures:
    """Edge features that messages read."""

    edges: EdgeIndex  # from senders to receivers, sorted by target
    vectors: Tensor  # (edges, 3) from senders to receivers
    harmonics: Tensor  # (edges, (lmax_edge + 1)^2), normalization "component"
    radial: Tensor  # (edges, radial_basis), smoothly zero at the cutoff

    @property
    def source(self) -> Tensor:
        """Senders, (edges,), in the order of the features."""
        return self.edges.edge_index[0]


class Messages(nn.Module, ABC):
    """Messages along edges, summed at their targets; O(3)-equivariant unless documented."""

    def __init__(self, irreps_in: Irreps, irreps_out: Irreps) -> None:
        super().__init__()
        self.irreps_in = irreps_in
        self.irreps_out = irreps_out

    @abstractmethod
    def forward(
        self,
        h: Tensor,  # (nodes, irreps_in.dim)
        edge: EdgeFeatures,
    ) -> Tensor:
        """Send messages and sum them at their targets, (nodes, irreps_out.dim)."""


def weights_of_distances(
    basis: int,  # number of radial functions
    hidden: tuple[int, ...],  # widths
    outputs: int,  # number of weights
) -> RadialMLP:
    """Build a radial network with outputs that vanish smoothly where its inputs do."""
    # Without biases, which would not vanish at the cutoff.
    return RadialMLP([basis, *hidden, outputs], nn.functional.silu)


def sum_at_targets(
    messages: Tensor,  # (edges, ...) in the given order of edges
    edges: EdgeIndex,
) -> Tensor:
    """Sum messages at the targets of edges, (targets, ...)."""
    empty = messages.new_zeros(edges.num_targets, *messages.shape[1:])
    return empty.index_add(0, edges.edge_index[1], messages)


def signal_of(
    h: Tensor,  # (nodes, irreps.dim)
    irreps: Irreps,  # terms of one multiplicity
    parity: int,  # of values: the parity of an irrep times that of its degree
    lmax: int,
) -> Tensor:
    """Return coefficients of functions on the sphere, (nodes, channels, (lmax + 1)^2)."""
    terms = zip(irreps, irreps.slices(), strict=True)
    found = {l: h[:, piece] for (_, (l, p)), piece in terms if p * (-1) ** l == parity}
    shape = (h.shape[0], irreps.terms[0][0])
    parts = [
        found[l].reshape(*shape, 2 * l + 1) if l in found else h.new_zeros(*shape, 2 * l + 1)
        for l in range(lmax + 1)
    ]
    return torch.cat(parts, dim=-1)


@plain_tensors()
def copies_of(irreps: Irreps) -> Tensor:
    """Return the index of the irrep copy of each component, (irreps.dim,), in ``mul_ir`` layout."""
    sizes = torch.tensor([2 * l + 1 for mul, (l, _) in irreps for _ in range(mul)])
    return torch.repeat_interleave(sizes)
