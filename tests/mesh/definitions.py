"""Definitions of the mesh package as plain loops, to compare the vectorised code with."""

import math
import sys
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from equigeo.mesh import DualKind, PrimalDualGraph, TriangleMesh
from equigeo.testing import tolerance

F64 = torch.float64
FULL_TURN = 2 * math.pi


def assert_close(actual: Tensor, expected: object, terms: int = 1, condition: float = 1.0) -> None:
    """Equal in float64 up to the rounding of a sum of ``terms`` terms."""
    expected = torch.as_tensor(expected, dtype=F64)
    torch.testing.assert_close(actual, expected, **tolerance(F64, terms, condition))


def graph_of(
    shape: TriangleMesh, dual: DualKind = DualKind.SINGLE, features: str = "reference"
) -> PrimalDualGraph:
    return PrimalDualGraph.from_mesh(shape, dual, features, dtype=F64)


def shared_edges(shape: TriangleMesh) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Pairs of half-edges for every pair of adjacent faces ``i < j``."""
    owner = {}
    for f, face in enumerate(shape.faces.tolist()):
        for k in range(3):
            owner[face[k], face[(k + 1) % 3]] = 3 * f + k
    found = defaultdict(list)
    for (a, b), h in owner.items():
        other = owner.get((b, a))
        if other is not None and h // 3 < other // 3:
            found[h // 3, other // 3].append((h, other))
    return dict(found)


def dual_nodes(kind: DualKind, edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Names of the dual nodes by id: ``(i, j)`` for {i, j} or for i->j."""
    if kind is DualKind.SINGLE:
        return edges
    return [node for i, j in edges for node in ((i, j), (j, i))]


def dual_links(kind: DualKind, edges: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """Directed links between dual node ids, from the table of configurations."""
    nodes = dual_nodes(kind, edges)
    links = set()
    for s, (a, b) in enumerate(nodes):
        for t, (i, j) in enumerate(nodes):
            if {a, b} == {i, j}:
                continue
            walks_on, walks_back = b == i, j == a
            linked = {
                DualKind.SINGLE: bool({a, b} & {i, j}),
                DualKind.DOUBLE_UNDIRECTED: walks_on or walks_back,
                DualKind.DOUBLE_DIRECTED: walks_on,
            }[kind]
            if linked:
                links.add((s, t))
    return links


def components(pairs: object, size: int) -> list[int]:
    """Connected components of a graph, numbered by their smallest member."""
    source, target = np.asarray(pairs, dtype=np.int64).reshape(-1, 2).T
    graph = coo_array((np.ones(len(source)), (source, target)), shape=(size, size))
    label = connected_components(graph, directed=False)[1]
    first = np.unique(label, return_index=True)[1]
    return np.argsort(np.argsort(first))[label].tolist()


def softmax_average(
    logits: list[Tensor], values: list[Tensor], like: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """Sum of values weighted by a softmax; zero of nothing."""
    if not logits:
        return torch.zeros_like(like), []
    weights = torch.softmax(torch.stack(logits), dim=0)
    return sum(w * v for w, v in zip(weights, values, strict=True)), list(weights)


def leaky(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, 0.2 * x)


def edge_names(graph: PrimalDualGraph) -> list[tuple[int, int]]:
    return [tuple(row) for row in graph.undirected.tolist()]


def directed_names(graph: PrimalDualGraph) -> list[tuple[int, int]]:
    """``(source, target)`` of every primal edge, in the order of the attention."""
    return [tuple(row) for row in graph.primal.edge_index.T.tolist()]


def row_of(graph: PrimalDualGraph, source: int, target: int) -> int:
    """Dual node that weighs the message from ``source`` to ``target``."""
    return int(graph.edge_to_dual[directed_names(graph).index((source, target))])


def attention_from(
    graph: PrimalDualGraph, scores: dict[tuple[int, int], float], rest: float = 0.0
) -> Tensor:
    """Attention of one head whose both directions carry the score of the adjacency."""
    return torch.tensor(
        [[scores.get(tuple(sorted(edge)), rest)] for edge in directed_names(graph)], dtype=F64
    )


def random_graph(
    seed: int,
    channels: tuple[int, int] = (3, 4),
    dual: DualKind = DualKind.SINGLE,
    *,
    shape: TriangleMesh,
) -> PrimalDualGraph:
    """The graph of a mesh with random features."""
    graph = graph_of(shape, dual)
    random = np.random.default_rng(seed)
    primal = torch.as_tensor(random.normal(size=(graph.num_primal, channels[0])))
    return graph.with_features(
        primal, torch.as_tensor(random.normal(size=(graph.num_dual, channels[1])))
    )


def count_calls(function: Callable[[], object]) -> int:
    """Python and builtin calls that a function makes: a loop over faces shows at any speed."""
    events = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: events.append(event))
    try:
        function()
    finally:
        sys.setprofile(before)
    return events.count("call") + events.count("c_call")
