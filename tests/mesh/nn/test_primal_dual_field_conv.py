from typing import Any

import pytest
import torch
from torch import Tensor

from equigeo.groups import O
from equigeo.mesh import DualKind, PrimalDualFieldConv, PrimalDualGraph, TriangleMesh
from equigeo.reps import Irreps, TensorRep
from equigeo.testing import assert_equivariant, tolerance
from tests.mesh import shapes
from tests.tier import tier
from tests.wrong_inputs import refused

ON_FACES, ON_PAIRS = Irreps("2x0e + 1o"), TensorRep(O(3), up=1) + Irreps("0e")
OUT_FACES, OUT_PAIRS = Irreps("3x0e + 2x1o + 2e"), TensorRep(O(3), up=2) + Irreps("2x0e")
CLOSE = tolerance(torch.float64, 32)  # more copies of an irrep than any map mixes


def lumpy(seed: int = 0) -> TriangleMesh:
    """A closed mesh without any symmetry."""
    mesh = shapes.icosahedron()
    g = torch.Generator().manual_seed(seed)
    bumps = 0.2 * torch.randn(mesh.vertices.shape, generator=g, dtype=torch.float64)
    return TriangleMesh(mesh.vertices.double() + bumps, mesh.faces)


def layer(**options: Any) -> PrimalDualFieldConv:
    torch.manual_seed(0)
    return PrimalDualFieldConv((ON_FACES, ON_PAIRS), (OUT_FACES, OUT_PAIRS), **options).double()


def fields(graph: PrimalDualGraph, seed: int = 3) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    return (
        torch.randn(graph.num_primal, ON_FACES.dim, generator=g, dtype=torch.float64),
        torch.randn(graph.num_dual, ON_PAIRS.dim, generator=g, dtype=torch.float64),
    )


@pytest.mark.parametrize("dual", tier([DualKind.SINGLE], [*DualKind]))
def test_fields_turn_with_the_mesh(dual: DualKind) -> None:
    conv = layer(heads=2)

    def convolve(mesh: TriangleMesh, x_primal: Tensor, x_dual: Tensor) -> tuple[Tensor, Tensor]:
        return conv(PrimalDualGraph.from_mesh(mesh, dual), x_primal, x_dual)

    mesh = lumpy()
    inputs = [mesh, *fields(PrimalDualGraph.from_mesh(mesh, dual))]
    reps = [None, *conv.rep_in]
    assert_equivariant(convolve, reps, conv.rep_out, inputs=inputs, condition=16.0)

    def still(mesh: TriangleMesh, x_primal: Tensor, x_dual: Tensor) -> tuple[Tensor, Tensor]:
        """Steps and normals of the mesh as it stood."""
        return convolve(inputs[0], x_primal, x_dual)

    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(still, reps, conv.rep_out, inputs=inputs, condition=16.0)


def test_place_size_and_order_of_faces_do_not_matter() -> None:
    conv, mesh = layer(), lumpy()
    graph = PrimalDualGraph.from_mesh(mesh)
    x_primal, x_dual = fields(graph)
    want = conv(graph, x_primal, x_dual)
    moved = PrimalDualGraph.from_mesh(TriangleMesh(3 * mesh.vertices - 1, mesh.faces))
    for got, expected in zip(conv(moved, x_primal, x_dual), want, strict=True):
        torch.testing.assert_close(got, expected, **CLOSE)
    order = torch.randperm(mesh.num_faces, generator=torch.Generator().manual_seed(1))
    permuted = PrimalDualGraph.from_mesh(TriangleMesh(mesh.vertices, mesh.faces[order]))
    rank = order.argsort()
    pairs = rank[graph.undirected].sort(1).values
    # Row of each old pair among the new ones.
    where = (permuted.undirected[:, None] == pairs[None]).all(2).int().argmax(0)
    there = torch.empty_like(x_dual).index_copy(0, where, x_dual)
    on_faces, on_pairs = conv(permuted, x_primal[order], there)
    torch.testing.assert_close(on_faces, want[0][order], **CLOSE)
    torch.testing.assert_close(on_pairs[where], want[1], **CLOSE)


@pytest.mark.full
def test_batches_are_meshes_side_by_side() -> None:
    conv = layer()
    graphs = [PrimalDualGraph.from_mesh(lumpy(seed)) for seed in (0, 1)]
    each = [conv(graph, *fields(graph, seed)) for seed, graph in enumerate(graphs)]
    given = [fields(graph, seed) for seed, graph in enumerate(graphs)]
    inputs, want = ([torch.cat(pair) for pair in zip(*x, strict=True)] for x in (given, each))
    for got, expected in zip(conv(PrimalDualGraph.batch(graphs), *inputs), want, strict=True):
        torch.testing.assert_close(got, expected, **CLOSE)


def test_graphs_of_either_features_that_are_wound_outwards_serve() -> None:
    conv, mesh = layer(), lumpy()
    inside_out = TriangleMesh(mesh.vertices, mesh.faces.flip(1))
    graph = PrimalDualGraph.from_mesh(mesh)
    for given in (mesh, inside_out):
        other = PrimalDualGraph.from_mesh(given, features="multiscale")
        got = conv(other, *fields(graph))
        for one, expected in zip(got, conv(graph, *fields(graph)), strict=True):
            torch.testing.assert_close(one, expected, **CLOSE)


def test_vectors_come_out_of_scalars() -> None:
    torch.manual_seed(0)
    conv = PrimalDualFieldConv(
        (Irreps("2x0e"), Irreps("8x0e")), (Irreps("1o"), Irreps("0e"))
    ).double()

    def vectors(mesh: TriangleMesh) -> Tensor:
        graph = PrimalDualGraph.from_mesh(mesh, dtype=torch.float64)
        return conv(graph, graph.x_primal[:, :1].expand(-1, 2).contiguous(), graph.x_dual)[0]

    assert_equivariant(vectors, rep_out=Irreps("1o"), inputs=[lumpy()], condition=64.0)


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(ValueError, match=r"turn by O\(3\)"):
        PrimalDualFieldConv((TensorRep(O(2)), Irreps("0e")), (Irreps("0e"), Irreps("0e")))
    with pytest.raises(TypeError, match="has a Representation, got int"):
        PrimalDualFieldConv((3, Irreps("0e")), (Irreps("0e"), Irreps("0e")))  # type: ignore[arg-type]
    refused("must be positive", layer, vectors=0)
    graph = PrimalDualGraph.from_mesh(lumpy())
    refused("x_primal", layer(), graph, torch.zeros(3, 5, dtype=torch.float64), fields(graph)[1])
    reference = PrimalDualGraph.from_mesh(lumpy(), features="reference")
    refused("wound outwards", layer(), reference, *fields(reference))
    refused("float32", layer(), graph, *(x.float() for x in fields(graph)), error=TypeError)
