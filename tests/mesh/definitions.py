"""Definitions of the mesh package as plain loops, and models and laws that its tests share."""

import itertools
import math
import sys
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from equigeo.groups import Affine, O
from equigeo.mesh import DualKind, PrimalDualGraph, TriangleMesh
from equigeo.mesh.nn.mesh_model import MeshModel
from equigeo.reps import Trivial
from equigeo.testing import assert_equivariant, equivariance_error, tolerance
from tests.mesh import shapes

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
    links = set()
    for (s, (a, b)), (t, (i, j)) in itertools.product(enumerate(dual_nodes(kind, edges)), repeat=2):
        linked = {
            DualKind.SINGLE: bool({a, b} & {i, j}),
            DualKind.DOUBLE_UNDIRECTED: b == i or j == a,
            DualKind.DOUBLE_DIRECTED: b == i,
        }[kind]
        if linked and {a, b} != {i, j}:
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


def edge_names(graph: PrimalDualGraph) -> list[tuple[int, int]]:
    return [tuple(row) for row in graph.undirected.tolist()]


def directed_names(graph: PrimalDualGraph) -> list[tuple[int, int]]:
    """``(source, target)`` of every primal edge, in the order of the attention."""
    return [tuple(row) for row in graph.primal.edge_index.T.tolist()]


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


SCARCE = {
    "one triangle": shapes.triangle(),
    "two isolated faces": shapes.two_isolated(),
    "one pair": shapes.two_faces(1.0),
    "a pillow": shapes.pillow(),
    "a tetrahedron": shapes.tetrahedron(),
}


def chiral():
    """Closed, without any mirror symmetry."""
    return shapes.lumpy(shapes.icosphere(1), seed=3)


def training_meshes():
    several = [chiral(), shapes.bowl(), shapes.lumpy(shapes.torus()), shapes.random_hull(0, 30)]
    return [shapes.turned(shape, seed) for seed, shape in enumerate(several)]


def trained(network: type[MeshModel], config, seed: int = 0) -> MeshModel:
    """A model whose statistics and weights are those of no special moment."""
    torch.manual_seed(seed)
    model = network(config).double()
    graphs = [model.graph(shape) for shape in training_meshes()[:2]]
    model.fit_standardization(graphs)
    model.train()
    for _ in range(3):  # running statistics
        model(PrimalDualGraph.batch(graphs))
    return model.eval()


def outputs(model: MeshModel):
    return lambda shape: model(model.graph(shape)).detach()


def assert_invariant(model: MeshModel, channels: int, condition: float, shape=None) -> None:
    """Outputs do not change with motions and reflections."""
    rep_out, inputs = Trivial(Affine(O(3)), channels), [shape or chiral()]
    assert_equivariant(outputs(model), rep_out=rep_out, inputs=inputs, condition=condition)


def assert_invariant_to_motions_alone(model: MeshModel, channels: int, condition: float) -> None:
    """Outputs do not change with motions, and do with reflections."""
    law = {"rep_out": Trivial(Affine(O(3)), channels), "inputs": [chiral()]}
    assert equivariance_error(outputs(model), **law) > 1e-3
    motions = Affine(O(3)).testing_elements(torch.Generator().manual_seed(0))
    motions = motions[torch.linalg.det(motions) > 0]
    assert_equivariant(outputs(model), **law, elements=motions, condition=condition)


def assert_finite(model: MeshModel, *tensors: torch.Tensor) -> None:
    """Given tensors, gradients and buffers of a model are finite numbers."""
    named = {f"gradient of {name}": p.grad for name, p in model.named_parameters()}
    named |= dict(model.named_buffers()) | {f"tensor {k}": x for k, x in enumerate(tensors)}
    for name, values in named.items():
        assert values is None or bool(torch.isfinite(values).all()), name


def missed(model: MeshModel) -> dict[str, int]:
    """Parameters without a gradient other than zero, by size."""
    alive = {n for n, p in model.named_parameters() if p.grad is not None and bool(p.grad.any())}
    return {n: p.numel() for n, p in model.named_parameters() if n not in alive}
