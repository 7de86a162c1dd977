"""The base of what sends messages, and the sum of messages that are in memory."""

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
    """What messages know of edges.

    Parameters
    ----------
    edges : EdgeIndex
        From senders to receivers, sorted by target.
    vectors : Tensor, (edges, 3), floating
        From senders to receivers.
    harmonics : Tensor, (edges, (lmax_edge + 1)^2), floating
        Of their directions, in the normalization "component".
    radial : Tensor, (edges, radial_basis), floating
        Functions of their lengths that vanish smoothly at the cutoff.
    """

    edges: EdgeIndex
    vectors: Tensor
    harmonics: Tensor
    radial: Tensor

    @property
    def source(self) -> Tensor:
        """Senders, (edges,), in the order of the features."""
        return self.edges.edge_index[0]


class Messages(nn.Module, ABC):
    """Messages along edges, summed at their targets.

    Parameters
    ----------
    irreps_in, irreps_out : Irreps
        Of the features of nodes and of the sums.

    Equivariance
    ------------
    O(3) where not said otherwise, for any weights; permuting edges changes nothing.
    """

    def __init__(self, irreps_in: Irreps, irreps_out: Irreps) -> None:
        super().__init__()
        self.irreps_in = irreps_in
        self.irreps_out = irreps_out

    @abstractmethod
    def forward(self, h: Tensor, edge: EdgeFeatures) -> Tensor:
        """Send and sum.

        Parameters
        ----------
        h : Tensor, (nodes, irreps_in.dim), floating
            Features.
        edge : EdgeFeatures
            Of the same dtype.

        Returns
        -------
        Tensor, (nodes, irreps_out.dim), dtype of ``h``
            Sums; zero where no edge arrives.
        """


def weights_of_distances(basis: int, hidden: tuple[int, ...], outputs: int) -> RadialMLP:
    """Build a network whose outputs vanish where its inputs do, and as smoothly.

    Parameters
    ----------
    basis : int
        Number of radial functions.
    hidden : tuple of int
        Widths.
    outputs : int
        Number of weights.

    Returns
    -------
    RadialMLP
        Without biases: they would undo what the cutoff does to its inputs.
    """
    return RadialMLP([basis, *hidden, outputs], nn.functional.silu)


def sum_at_targets(messages: Tensor, edges: EdgeIndex) -> Tensor:
    """Add messages.

    Parameters
    ----------
    messages : Tensor, (edges, ...), floating
        In the order of the edges as given.
    edges : EdgeIndex
        The edges.

    Returns
    -------
    Tensor, (targets, ...)
        Sums.
    """
    empty = messages.new_zeros(edges.num_targets, *messages.shape[1:])
    return empty.index_add(0, edges.edge_index[1], messages)


@plain_tensors()
def copies_of(irreps: Irreps) -> Tensor:
    """Number, for each component of a feature, the irrep that it belongs to.

    Parameters
    ----------
    irreps : Irreps
        In the layout ``mul_ir``.

    Returns
    -------
    Tensor, (irreps.dim,), int64
        From 0 on, copies of one irrep one after another.

    Examples
    --------
    >>> copies_of(Irreps("2x0e+1x1o")).tolist()
    [0, 1, 2, 2, 2]
    """
    sizes = torch.tensor([2 * l + 1 for mul, (l, _) in irreps for _ in range(mul)])
    return torch.repeat_interleave(sizes)
