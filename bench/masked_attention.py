"""Attention over the faces within some hops of each other, and over learned tokens of each mesh."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from equigeo.graphs import EdgeIndex
from equigeo.mesh import PrimalDualGraph
from equigeo.ops import gather_sum

_EPS = 1e-8  # of the root mean square, as published


class MaskedAttention(nn.Module):
    r"""A transformer block whose attention is masked by a graph.

    .. math:: y = x + \mathrm{MHA}(\mathrm{RMSNorm}(x)), \qquad
              z = y + W_3(\mathrm{GELU}(W_1 u) \cdot W_2 u), \quad u = \mathrm{RMSNorm}(y)

    where head :math:`h` of target :math:`t` averages over the edges that arrive there with weights
    :math:`\mathrm{softmax}_s(q_t \cdot k_s / \sqrt d + b_{st})`. Time and memory are linear in
    edges. A node without an edge keeps what it has.

    Parameters
    ----------
    channels : int
        Of the nodes, divisible by ``heads``.
    heads : int
        Attention heads.
    expansion : int
        Hidden channels of the gated network, for each channel.

    Raises
    ------
    ValueError
        If a number is not positive or the heads do not divide the channels.

    Equivariance
    ------------
    Scalars in, scalars out, where the bias is invariant; permuting nodes permutes rows.

    References
    ----------
    Garnier et al., "Training Transformers for Mesh-Based Simulations", 2025.
    """

    def __init__(self, channels: int, *, heads: int = 4, expansion: int = 3) -> None:
        super().__init__()
        if min(channels, heads, expansion) < 1 or channels % heads:
            raise ValueError(
                "channels, heads and expansion must be positive and heads divide channels, "
                f"got {channels}, {heads} and {expansion}"
            )
        self.heads = heads
        self.attention_norm = nn.RMSNorm(channels, eps=_EPS)
        self.query_key_value = nn.Linear(channels, 3 * channels, bias=False)
        self.attention_out = nn.Linear(channels, channels)
        self.network_norm = nn.RMSNorm(channels, eps=_EPS)
        self.gate_and_value = nn.Linear(channels, 2 * expansion * channels)
        self.network_out = nn.Linear(expansion * channels, channels)

    def forward(self, x: Tensor, mask: EdgeIndex, bias: Tensor | None = None) -> Tensor:
        """Attend along the edges of a mask.

        Parameters
        ----------
        x : Tensor, (nodes, channels)
            Features.
        mask : EdgeIndex
            Which source each target attends to, sorted by target.
        bias : Tensor, (edges, heads), optional
            Added to the logits.

        Returns
        -------
        Tensor, (nodes, channels)
            New features.

        Raises
        ------
        ValueError
            If the mask is not sorted.
        """
        if not mask.is_sorted:
            raise ValueError("mask must be sorted by target")
        x = x + self.attention_out(self._attend(self.attention_norm(x), mask, bias))
        gate, value = self.gate_and_value(self.network_norm(x)).chunk(2, 1)
        return x + self.network_out(gelu(gate) * value)

    def _attend(self, x: Tensor, mask: EdgeIndex, bias: Tensor | None) -> Tensor:
        query, key, value = self.query_key_value(x).chunk(3, 1)
        each = torch.arange(mask.num_edges + 1, device=x.device)
        # Gathers whose gradients are sums in the order of the edges, which index_select's are not.
        query = gather_sum(query.contiguous(), mask.target, each, each[:-1], mask.ptr)
        key = gather_sum(key.contiguous(), mask.source, each, mask.back_order, mask.back_ptr)
        logits = (query * key).unflatten(1, (self.heads, -1)).sum(2)
        logits = logits / math.sqrt(x.shape[1] / self.heads)
        if bias is not None:
            logits = logits + bias
        return mask.attend(value.unflatten(1, (self.heads, -1)).contiguous(), logits)[0].flatten(1)


class MeshAttention(nn.Module):
    """Blocks of masked attention over the faces or clusters of a mesh and its own tokens.

    Every face attends to those at given numbers of hops and to the tokens of its mesh, every token
    to all faces of its mesh: linear in faces. Logits have a learned bias for each head and number
    of hops, and between neighbours a linear map of the features of their pair.

    Parameters
    ----------
    channels : (int, int)
        Of faces and of pairs.
    hops : tuple of int
        Distances in the primal graph at which faces see each other: ``(1, 2, 3)`` is a window,
        ``(1, 3, 5)`` a dilated one.
    tokens : int
        Learned tokens of each mesh, at least one, so that no face is alone.
    blocks, heads : int
        Blocks, and heads of each.

    Raises
    ------
    ValueError
        If a number is not positive.

    Equivariance
    ------------
    Scalars in, scalars out: what is read are hops and invariant features. Permuting faces permutes
    rows.
    """

    def __init__(
        self,
        channels: tuple[int, int],
        *,
        hops: tuple[int, ...] = (1, 2, 3),
        tokens: int = 4,
        blocks: int = 2,
        heads: int = 4,
    ) -> None:
        super().__init__()
        if min(*channels, *hops, tokens, blocks) < 1:
            raise ValueError(
                "channels, hops, tokens and blocks must be positive, "
                f"got {channels}, {hops}, {tokens} and {blocks}"
            )
        self.hops = hops
        self.tokens = nn.Parameter(torch.randn(tokens, channels[0]))
        self.blocks = nn.ModuleList(
            MaskedAttention(channels[0], heads=heads) for _ in range(blocks)
        )
        # Rows: number of hops, from a token, to a token.
        self.of_hops = nn.Parameter(torch.zeros(blocks, max(hops) + 3, heads))
        self.of_pairs = nn.ModuleList(
            nn.Linear(channels[1], heads, bias=False) for _ in range(blocks)
        )

    def forward(self, graph: PrimalDualGraph) -> PrimalDualGraph:
        """Exchange the features of faces.

        Parameters
        ----------
        graph : PrimalDualGraph
            With features; pooled or not.

        Returns
        -------
        PrimalDualGraph
            The same but for ``x_primal``.
        """
        mask = AttentionMask.of(graph, self.hops, len(self.tokens))
        x = torch.cat([graph.x_primal, self.tokens.repeat(graph.num_graphs, 1)])
        for block, of_hops, of_pairs in zip(self.blocks, self.of_hops, self.of_pairs, strict=True):
            bias = of_hops.index_select(0, mask.kind)
            between = of_pairs(graph.x_dual).index_select(0, mask.dual)
            x = block(x, mask.edges, bias.index_add(0, mask.neighbours, between))
        return graph.with_features(x[: graph.num_primal], graph.x_dual)


@dataclass(frozen=True, eq=False)
class AttentionMask:
    """Who attends to whom on a mesh with tokens, which are numbered behind the faces.

    Parameters
    ----------
    edges : EdgeIndex
        Sorted by target.
    kind : Tensor, (edges,), int64
        Hops between two faces; one more than the most for edges from a token, two more for edges to
        one.
    neighbours : Tensor, (edges between neighbours,), int64
        Their positions.
    dual : Tensor, (edges between neighbours,), int64
        Their dual nodes.
    """

    edges: EdgeIndex
    kind: Tensor
    neighbours: Tensor
    dual: Tensor

    @classmethod
    def of(cls, graph: PrimalDualGraph, hops: tuple[int, ...], tokens: int) -> AttentionMask:
        """Find it.

        Parameters
        ----------
        graph : PrimalDualGraph
            One mesh or a batch.
        hops : tuple of int
            At which distances faces see each other.
        tokens : int
            Of each mesh.
        """
        nodes, device = graph.num_primal, graph.undirected.device
        total = nodes + graph.num_graphs * tokens
        each = torch.arange(nodes, device=device).repeat_interleave(tokens)
        first = nodes + tokens * graph.primal_batch
        token = (first[:, None] + torch.arange(tokens, device=device)).flatten()
        parts = [
            pairs for k, pairs in enumerate(hop_pairs(graph.primal, max(hops)), 1) if k in hops
        ]
        kinds = [k for k in range(1, max(hops) + 1) if k in hops] + [max(hops) + 1, max(hops) + 2]
        parts += [torch.stack([token, each]), torch.stack([each, token])]
        counts = torch.tensor([part.shape[1] for part in parts], device=device)
        kind = torch.tensor(kinds, device=device).repeat_interleave(counts)
        index = torch.cat(parts, 1)
        order = (index[1] * total + index[0]).argsort()
        edges = EdgeIndex.from_valid_edges(index[:, order], total, total)
        kind = kind[order]
        # Both lists are sorted by target and then by source.
        neighbours = torch.nonzero(kind == 1).squeeze(1) if 1 in hops else order[:0]
        dual = graph.edge_to_dual if 1 in hops else order[:0]
        return cls(edges, kind, neighbours, dual)


def hop_pairs(edges: EdgeIndex, most: int) -> list[Tensor]:
    """Find the nodes at every number of hops from each other.

    Parameters
    ----------
    edges : EdgeIndex
        Both directions of every adjacency.
    most : int
        Largest number of hops.

    Returns
    -------
    list of Tensor, (2, pairs), int64
        For 1, 2, ... hops: sources and targets, sorted by target and then by source.
    """
    nodes = edges.num_targets
    degree = edges.ptr.diff()
    known = torch.arange(nodes, device=edges.ptr.device) * (nodes + 1)  # target nodes + source
    outermost, found = known, []
    for _ in range(most):
        target, middle = outermost // max(nodes, 1), outermost % max(nodes, 1)
        reach = degree[middle]
        start = edges.ptr[middle] - (reach.cumsum(0) - reach)
        row = torch.arange(int(reach.sum()), device=reach.device) + start.repeat_interleave(reach)
        further = (target.repeat_interleave(reach) * nodes + edges.source[row]).unique()
        outermost = further[~torch.isin(further, known, assume_unique=True)]
        known = torch.cat([known, outermost])
        found.append(torch.stack([outermost % max(nodes, 1), outermost // max(nodes, 1)]))
    return found
