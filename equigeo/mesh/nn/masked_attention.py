"""Attention along the edges of a graph, and the edges of neighborhoods, random ones and tokens."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equigeo._core.checks import (
    TensorLike,
    as_tensor,
    check_like,
    check_shape,
    checked_integer,
    kind_of,
    takes_integers,
)
from equigeo._core.tensors import computed_in, computes_in_float32
from equigeo.graphs import EdgeIndex
from equigeo.graphs.edge_index import cloud_offsets
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.nn import Linear
from equigeo.nn.channel_mixing import Copies
from equigeo.nn.module import representation_argument
from equigeo.nn.state import SavedOptions
from equigeo.ops.edges.gather_sum import gather_sum_op
from equigeo.reps import Irreps, Representation


@takes_integers
class MaskedAttention(SavedOptions):
    r"""Multi-head attention along the edges of a graph, for features of any representation.

    Head :math:`h` of target :math:`t` averages values of its sources and features of its edges:

    .. math:: \alpha_{tsh} = \operatorname{softmax}_s\Bigl(\frac{q_{th} \cdot k_{sh}}{\sqrt d}
              + b_h(e_{ts})\Bigr), \qquad
              y_t = O\Bigl(\bigoplus_h \sum_s \alpha_{tsh} \bigl(V_h x_s \oplus e_{ts}\bigr)\Bigr)

    with equivariant linear maps V and O. Queries, keys and b are linear maps of invariants: of
    trivial components, and of lengths of the others. For trivial representations without features
    of edges it is dot-product attention under a mask. Time and memory are linear in edges.
    Equivariant under the group of the representations; permuting nodes permutes the result.

    Parameters
    ----------
    rep_in, rep_out : Representation or str
        Orthogonal representations of the nodes; text stands for irreps of O(3).
    rep_edge : Representation or str, optional
        Orthogonal representation of edges, of the same group.
    heads : int
        A head has the share of ``rep_in`` for its values, rounded up.
    channels : int
        Length of queries and keys per head.

    Raises
    ------
    ValueError
        If a number is not positive, or a representation is not orthogonal or of another group.

    References
    ----------
    Garnier et al., "Training Transformers for Mesh-Based Simulations", 2025; Vaswani et al.,
    "Attention Is All You Need", NeurIPS 2017.

    Examples
    --------
    >>> from equigeo.mesh import TriangleMesh
    >>> mask = attention_mask(TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]])), tokens=1)
    >>> layer = MaskedAttention("8x0e + 4x1o", "8x0e + 4x1o", "2x0e + 1o", heads=2)
    >>> layer(torch.randn(4, 20), mask, torch.randn(mask.num_edges, 5)).shape
    torch.Size([4, 20])
    """

    def __init__(
        self,
        rep_in: Representation | str,
        rep_out: Representation | str,
        rep_edge: Representation | str | None = None,
        *,
        heads: int = 4,
        channels: int = 16,
    ) -> None:
        super().__init__()
        if min(heads, channels) < 1:
            raise ValueError(f"heads and channels must be positive, got {heads} and {channels}")
        given = {"rep_in": rep_in, "rep_out": rep_out, "rep_edge": rep_edge}
        reps = {
            name: representation_argument(name, rep)
            for name, rep in given.items()
            if rep is not None
        }
        nodes, self.rep_out, edge = reps["rep_in"], reps["rep_out"], reps.get("rep_edge")
        for name, rep in reps.items():
            if rep.group != nodes.group:
                raise ValueError(f"{name} must be of {nodes.group} as rep_in is, got {rep.group}")
        self.heads, self.channels = heads, channels
        self.copies = Copies(nodes)
        self.query = nn.Linear(self.copies.count, heads * channels)
        self.key = nn.Linear(self.copies.count, heads * channels)
        share = _share(nodes, heads)
        self.value = Linear(nodes, share * heads)
        self.rep_in: tuple[Representation, ...] = (nodes,)
        self.edge_copies = self.edge_bias = None
        mixed = share * heads
        if edge is not None:
            self.rep_in += (edge,)
            self.edge_copies = Copies(edge)
            self.edge_bias = nn.Linear(self.edge_copies.count, heads, bias=False)
            mixed = mixed + edge * heads
        self.out = Linear(mixed, self.rep_out, biases=True)

    def extra_repr(self) -> str:
        return f"{' by '.join(map(str, self.rep_in))} -> {self.rep_out}, heads={self.heads}"

    def _saved_options(self) -> Mapping[str, Any]:
        return {"heads": self.heads, "channels": self.channels}

    def forward(self, x: Tensor, mask: EdgeIndex, x_edge: Tensor | None = None) -> Tensor:
        """Attend along the edges of a mask.

        Parameters
        ----------
        x : Tensor, (nodes, rep_in.dim)
            Features of the nodes.
        mask : EdgeIndex
            Edges between the nodes, such as :func:`attention_mask` returns.
        x_edge : Tensor, (edges, rep_edge.dim)
            Features of the edges in the order of ``mask.edge_index``, given if ``rep_edge`` is.

        Returns
        -------
        Tensor, (nodes, rep_out.dim)
            Only the bias for nodes that no edge points to.
        """
        weight = self.query.weight
        x, x_edge = self._checked(x, mask, x_edge, weight)
        invariants = self.copies.invariants(x)
        logits = _scores(self.query(invariants), self.key(invariants), mask, self.heads)
        if self.edge_copies is not None and self.edge_bias is not None and x_edge is not None:
            logits = logits + self.edge_bias(self.edge_copies.invariants(x_edge))
        values = self.value(x).unflatten(1, (self.heads, -1)).to(logits.dtype)
        found, attention = mask.attend(values, logits)
        parts = [found.flatten(1)]
        if x_edge is not None:
            parts.append(_edge_sums(attention, x_edge, mask))
        out: Tensor = self.out(torch.cat(parts, 1).to(x.dtype))
        return out

    def _checked(
        self, x: Tensor, mask: EdgeIndex, x_edge: Tensor | None, weight: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Return features as tensors; raise unless they fit the mask and the layer."""
        if not isinstance(mask, EdgeIndex):
            raise TypeError(f"mask must be an EdgeIndex, got {kind_of(mask)}")
        _check_square("mask", mask)
        if (x_edge is None) != (self.edge_copies is None):
            wanted = "none, as the layer has no rep_edge" if x_edge is not None else "features"
            raise ValueError(f"x_edge must be {wanted}, got {kind_of(x_edge)}")
        features = {"x": (x, mask.num_sources), "x_edge": (x_edge, mask.num_edges)}
        found: list[Tensor] = []
        for (name, (value, rows)), rep in zip(features.items(), self.rep_in, strict=False):
            tensor = as_tensor(value, name, like=weight)
            check_shape(tensor, name, (rows, rep.dim))
            check_like(tensor, name, weight)
            found.append(tensor)
        return found[0], found[1] if len(found) > 1 else None


def _check_square(name: str, graph: EdgeIndex) -> None:
    sources, targets = graph.num_sources, graph.num_targets
    if sources != targets:
        raise ValueError(
            f"{name} must have as many sources as targets, got {sources} and {targets}"
        )


def _share(rep: Representation, heads: int) -> Representation:
    """Return the representation of one head: each multiplicity over the heads, rounded up."""
    if isinstance(rep, Irreps):
        return Irreps([(-(-mul // heads), ir) for mul, ir in rep], rep.layout)
    first, *others = (-(-len(part.positions) // heads) * part.rep for part in rep.summands())
    return sum(others, first)


@computes_in_float32
def _scores(query: Tensor, key: Tensor, mask: EdgeIndex, heads: int) -> Tensor:
    """Return scaled products of both ends, (edges, heads), in at least float32."""
    query, key = (x.to(computed_in(x.dtype)) for x in (query, key))
    # Gathers whose gradients are sums in the order of the edges, without atomics.
    by_source = mask.order.index_select(0, mask.back_order)
    source, target = mask.edge_index.unbind()
    at_source = gather_sum_op(key, source, mask.each, by_source, mask.back_ptr)
    at_target = gather_sum_op(query, target, mask.each, mask.order, mask.ptr)
    products = (at_source * at_target).unflatten(1, (heads, -1))
    return products.sum(2) / sqrt(products.shape[2])


@computes_in_float32
def _edge_sums(attention: Tensor, x_edge: Tensor, mask: EdgeIndex) -> Tensor:
    """Return weighted sums of the features of edges, (nodes, heads * rep_edge.dim)."""
    weighted = attention[:, :, None] * x_edge.to(attention.dtype)[:, None, :]
    return gather_sum_op(
        weighted.flatten(1), mask.order, mask.ptr, mask.edge_index[1], mask.each
    )  # fmt: skip


def attention_mask(
    graph: TriangleMesh | EdgeIndex,
    *,
    hops: int = 1,
    dilation: int = 1,
    random: int = 0,
    tokens: int = 0,
    ptr: TensorLike | None = None,
    generator: torch.Generator | None = None,
) -> EdgeIndex:
    """Return the edges along which nodes of a graph attend to each other.

    A node attends to the nodes at ``dilation``, ``2 * dilation``, ..., ``hops * dilation`` steps
    along edges, to random nodes of its part of the graph, and to the tokens of its part, which
    attend to all nodes of the part. No node attends to itself; layers add its own features.
    Permuting nodes permutes the result, but for random edges.

    Parameters
    ----------
    graph : TriangleMesh or EdgeIndex
        A mesh stands for its vertices, joined by edges of faces.
    hops : int
        Number of distances; 0 for none.
    dilation : int
        Step from one distance to the next, at least 1.
    random : int
        Largest number of random edges per node; draws that are there already count once.
    tokens : int
        Additional nodes per part: token ``i`` of part ``g`` is ``num_nodes + g * tokens + i``.
    ptr : Tensor, (parts + 1,), int64, optional
        Offsets of the parts in a union of graphs (default: one part).
    generator : torch.Generator, optional
        Source of random edges, on the CPU (default: that of PyTorch).

    Returns
    -------
    EdgeIndex
        Sorted, each edge once, over nodes and tokens, on the device of the graph.

    Raises
    ------
    ValueError
        If a number is out of range, or sources are other nodes than targets.

    References
    ----------
    Garnier et al., "Training Transformers for Mesh-Based Simulations", 2025.

    Examples
    --------
    >>> path = EdgeIndex.from_edges(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    >>> attention_mask(path, hops=2).edge_index.tolist()
    [[1, 2, 0, 2, 0, 1], [0, 0, 1, 1, 2, 2]]
    >>> attention_mask(path, hops=0, tokens=1).edge_index.tolist()
    [[3, 3, 3, 0, 1, 2], [0, 1, 2, 3, 3, 3]]
    """
    given = {"hops": hops, "random": random, "tokens": tokens}
    hops, random, tokens = (checked_integer(name, x, 0) for name, x in given.items())
    dilation = checked_integer("dilation", dilation, 1)
    source, target, nodes, device = _steps(graph)
    offsets = cloud_offsets(nodes, None, torch.tensor([0, nodes]) if ptr is None else ptr)
    starts = np.asarray(torch.as_tensor(offsets).cpu())
    found = [
        _at_distances(source, target, nodes, hops, dilation),
        _random_edges(starts, random, generator),
        _token_edges(starts, tokens),
    ]
    total = nodes + tokens * (len(starts) - 1)
    sources, targets = np.concatenate(found, axis=1)
    # A key per edge, sorted by target, in which repeated ones are adjacent.
    keys = np.unique(targets * total + sources)
    sorted_edges = np.stack([keys % max(total, 1), keys // max(total, 1)])
    return EdgeIndex.from_valid_edges(torch.from_numpy(sorted_edges), total, total).to(device)


Array = NDArray[np.int64]


def _steps(graph: TriangleMesh | EdgeIndex) -> tuple[Array, Array, int, torch.device]:
    """Return sources and targets of the edges, the number of nodes and the device."""
    if isinstance(graph, TriangleMesh):
        start = graph.faces.flatten().cpu().numpy()
        end = graph.faces.roll(-1, 1).flatten().cpu().numpy()
        joined = np.concatenate([start, end]), np.concatenate([end, start])
        return *joined, graph.num_vertices, graph.faces.device
    if not isinstance(graph, EdgeIndex):
        raise TypeError(f"graph must be a TriangleMesh or an EdgeIndex, got {kind_of(graph)}")
    _check_square("graph", graph)
    source, target = graph.edge_index.cpu().numpy()
    return source, target, graph.num_targets, graph.edge_index.device


def _at_distances(source: Array, target: Array, nodes: int, hops: int, dilation: int) -> Array:
    """Return the pairs at some distances, (2, edges), by a search in breadth from every node."""
    step = scipy.sparse.csr_array((np.ones(len(source), bool), (target, source)), (nodes, nodes))
    frontier = reached = scipy.sparse.eye_array(nodes, dtype=bool, format="csr")
    found = [np.zeros((2, 0), np.int64)]
    for distance in range(1, hops * dilation + 1):
        frontier = (frontier @ step) > reached
        if not frontier.nnz:
            break
        reached = reached + frontier
        if distance % dilation == 0:
            rows, columns = frontier.nonzero()
            found.append(np.stack([columns, rows]).astype(np.int64))
    return np.concatenate(found, axis=1)


def _random_edges(starts: Array, number: int, generator: torch.Generator | None) -> Array:
    """Return ``number`` draws per node among all nodes of its part, without the node itself."""
    sizes = np.diff(starts)
    size, first = (np.repeat(x, sizes)[:, None] for x in (sizes, starts[:-1]))
    nodes = np.arange(len(size))[:, None]
    drawn = torch.rand(len(size), number, generator=generator, dtype=torch.float64).numpy()
    sources = first + (drawn * size).astype(np.int64)
    apart = sources != nodes
    return np.stack([sources[apart], np.broadcast_to(nodes, sources.shape)[apart]])


def _token_edges(starts: Array, tokens: int) -> Array:
    """Return the edges between the nodes of each part and its tokens, in both directions."""
    sizes = np.diff(starts)
    parts = np.repeat(np.arange(len(sizes)), sizes)[:, None]
    numbers = starts[-1] + parts * tokens + np.arange(tokens)
    nodes = np.broadcast_to(np.arange(len(parts))[:, None], numbers.shape).ravel()
    return np.concatenate(
        [np.stack([numbers.ravel(), nodes]), np.stack([nodes, numbers.ravel()])], 1
    )
