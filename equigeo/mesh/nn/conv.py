"""Primal-dual convolution: attention on the dual graph weights the messages of the primal graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from equigeo._core.checks import as_tensor, check_device, check_like, check_shape, takes_integers
from equigeo._core.tensors import computes_in_float32
from equigeo.groups import O
from equigeo.mesh.geometry.dual_graph import DualKind
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph, check_graph
from equigeo.nn.state import SavedOptions
from equigeo.ops.edges.gather_sum import gather_sum_op
from equigeo.reps import Representation, Trivial


class Channels(NamedTuple):
    """Channel counts of the two streams."""

    primal: int
    dual: int


@takes_integers
class PrimalDualConv(SavedOptions):
    r"""Convolve both streams of a primal-dual graph.

    The dual stream is a graph attention layer. With :math:`Z = X_d W_d` and, for a dual edge from
    :math:`s` to :math:`t`, :math:`e_{st} = \mathrm{LeakyReLU}(a_1 \cdot Z_t + a_2 \cdot Z_s)`,

    .. math:: D_t = \sum_s \mathrm{softmax}_s(e_{st}) Z_s .

    Primal messages :math:`Y = X_p W_p` are weighted by the dual node :math:`\delta(ji)` of their
    edge:

    .. math:: X'_i = \sum_j \mathrm{softmax}_j(\mathrm{LeakyReLU}(a_p \cdot D_{\delta(ji)})) Y_j .

    Invariant features in and out; permuting faces permutes both results. Reference: Milano et al.,
    "Primal-Dual Mesh Convolutional Neural Networks", NeurIPS 2020.

    Parameters
    ----------
    in_channels, out_channels : (int, int)
        Primal and dual channels; ``out_channels`` per head.
    heads : int
        Attention heads; their results are concatenated.
    bias : bool
        Add a bias to both streams.
    activation : bool
        End in a ReLU, as PD-MeshNet does; its primal attention then reads the rectified features.
    self_term : bool
        Add a linear map of the node's own features, which the attention does not read.
    coupling : bool
        Add to each dual node a linear map of sum and absolute difference of its two faces.
    negative_slope : float
        Slope of the leaky ReLU.

    Examples
    --------
    >>> from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
    >>> graph = PrimalDualGraph.from_mesh(TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]])))
    >>> conv = PrimalDualConv((1, 8), (4, 5), heads=2)
    >>> primal, dual, attention = conv(graph, graph.x_primal, graph.x_dual)
    >>> primal.shape, dual.shape, attention.shape
    (torch.Size([1, 8]), torch.Size([0, 10]), torch.Size([0, 2]))
    """

    def __init__(
        self,
        in_channels: tuple[int, int],
        out_channels: tuple[int, int],
        *,
        heads: int = 1,
        bias: bool = False,
        activation: bool = False,
        self_term: bool = False,
        coupling: bool = False,
        negative_slope: float = 0.2,
    ) -> None:
        super().__init__()
        if min(*in_channels, *out_channels, heads) < 1:
            raise ValueError(
                "channels and heads must be positive, "
                f"got {in_channels}, {out_channels} and {heads}"
            )
        self.in_channels, self.per_head = Channels(*in_channels), Channels(*out_channels)
        self.heads = heads
        self.out_channels = Channels(heads * out_channels[0], heads * out_channels[1])
        self.activation, self.negative_slope = activation, negative_slope
        self.primal_linear = nn.Linear(in_channels[0], self.out_channels.primal, bias=False)
        self.dual_linear = nn.Linear(in_channels[1], self.out_channels.dual, bias=False)
        self.primal_attention = nn.Parameter(torch.empty(heads, out_channels[1]))
        self.dual_attention = nn.Parameter(torch.empty(heads, 2 * out_channels[1]))
        self.primal_bias = nn.Parameter(torch.empty(self.out_channels.primal)) if bias else None
        self.dual_bias = nn.Parameter(torch.empty(self.out_channels.dual)) if bias else None
        self.primal_self = self.dual_self = self.dual_coupling = None
        if self_term:
            self.primal_self = nn.Linear(in_channels[0], self.out_channels.primal, bias=False)
            self.dual_self = nn.Linear(in_channels[1], self.out_channels.dual, bias=False)
        if coupling:
            self.dual_coupling = nn.Linear(2 * in_channels[0], self.out_channels.dual, bias=False)
        self.reset_parameters()

    def _saved_options(self) -> Mapping[str, Any]:
        return {
            "activation": self.activation,
            "negative_slope": self.negative_slope,
            "heads": self.heads,
        }

    @property
    def rep_in(self) -> tuple[Representation, Representation]:
        """Scalars of both streams."""
        return Trivial(O(3), self.in_channels.primal), Trivial(O(3), self.in_channels.dual)

    @property
    def rep_out(self) -> tuple[Representation, Representation]:
        """Scalars of both streams."""
        return Trivial(O(3), self.out_channels.primal), Trivial(O(3), self.out_channels.dual)

    def reset_parameters(self) -> None:
        """Draw weights from Glorot's uniform distribution; set biases to zero."""
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.xavier_uniform_(parameter)

    def forward(
        self, graph: PrimalDualGraph, x_primal: Tensor, x_dual: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Convolve features (primal nodes, channels) and (dual nodes, channels) along a graph.

        Returns
        -------
        x_primal, x_dual : Tensor, (nodes, heads * channels)
            Zero, except for bias and self term, at nodes without neighbors.
        attention : Tensor, (primal edges, heads)
            Weights of the primal messages; they sum to one per face.
        """
        check_graph(graph)
        weight = self.primal_linear.weight
        x_primal, x_dual = fitting_features(graph, x_primal, x_dual, self.in_channels, weight)
        x_dual = self._dual(graph, x_primal, x_dual)
        x_primal, attention = self._primal(graph, x_primal, x_dual)
        return x_primal, x_dual, attention

    def _dual(self, graph: PrimalDualGraph, x_primal: Tensor, x_dual: Tensor) -> Tensor:
        weight = self.dual_linear.weight
        # a . (W x_t, W x_s) = (a_1 W) . x_t + (a_2 W) . x_s: two numbers per node, and no vector
        # per edge. Halves are for the target and for the source.
        halves = self.dual_attention.view(self.heads, 2, -1)
        of_nodes = torch.einsum("hko,hoc->khc", halves, weight.unflatten(0, (self.heads, -1)))
        at_target, at_source = (x_dual @ of_nodes.flatten(0, 1).mT).split(self.heads, dim=1)
        edges = graph.dual_edges
        check_device(at_source=x_dual, edge_index=edges.source)
        logits = leaky_relu(edges.add_valid_ends(at_source, at_target), self.negative_slope)
        self_weight = None if self.dual_self is None else self.dual_self.weight
        out, _ = edges.attend_valid(x_dual, logits, weight, self_weight)
        if self.dual_bias is not None:
            out = out + self.dual_bias
        if self.dual_coupling is not None:
            out = out + self.dual_coupling(_endpoint_features(graph, x_primal))
        return out.relu() if self.activation else out

    def _primal(
        self, graph: PrimalDualGraph, x_primal: Tensor, x_dual: Tensor
    ) -> tuple[Tensor, Tensor]:
        scores = x_dual @ torch.block_diag(*self.primal_attention.unsqueeze(2))
        logits = leaky_relu(scores, self.negative_slope).index_select(0, graph.edge_to_dual)
        self_weight = None if self.primal_self is None else self.primal_self.weight
        out, attention = graph.primal.attend_valid(
            x_primal, logits, self.primal_linear.weight, self_weight
        )
        if self.primal_bias is not None:
            out = out + self.primal_bias
        return (out.relu() if self.activation else out), attention


@computes_in_float32
def _endpoint_features(graph: PrimalDualGraph, x_primal: Tensor) -> Tensor:
    """Return sum and absolute difference of both faces, (dual nodes, 2 channels)."""
    ends = graph.undirected.reshape(-1)
    each = torch.arange(ends.shape[0] + 1, device=ends.device)
    edges = graph.primal
    # A gather whose gradient is the sum over the edges that arrive at a face, in their fixed
    # order: an index_select would add up its gradient with atomics on a GPU.
    arrives_at = 2 * graph.to_undirected + (edges.target > edges.source).long()
    both = gather_sum_op(x_primal, ends, each, arrives_at, edges.ptr).unflatten(0, (-1, 2))
    lower, higher = both.unbind(1)
    # Symmetric functions, so that the order of the two faces does not matter.
    symmetric = torch.cat((lower + higher, (lower - higher).abs()), dim=1)
    if graph.dual is DualKind.SINGLE:
        return symmetric
    return symmetric.repeat_interleave(2, dim=0)


def fitting_features(
    graph: PrimalDualGraph,
    x_primal: Tensor,  # or a NumPy array, as x_dual
    x_dual: Tensor,
    widths: tuple[int, int],  # expected columns
    weight: Tensor,  # of the layer
) -> tuple[Tensor, Tensor]:
    """Return node features as tensors; raise unless they fit the graph and the layer."""
    found = []
    given = (("x_primal", x_primal, graph.primal), ("x_dual", x_dual, graph.dual_edges))
    for (name, x, edges), width in zip(given, widths, strict=True):
        shape = edges.num_sources, width
        # Layers that call layers pass tensors that fit, which need no call.
        fits = type(x) is Tensor and x.shape == shape
        if not (fits and x.dtype == weight.dtype and x.device == weight.device):
            x = as_tensor(x, name, like=weight)
            check_shape(x, name, shape)
            check_like(x, name, weight)
        found.append(x)
    return found[0], found[1]
