"""Convolution of equivariant fields on a mesh."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from equigeo._core.checks import kind_of, takes_integers
from equigeo.groups import O
from equigeo.mesh.geometry.dual_graph import DualKind
from equigeo.mesh.geometry.half_edges import HalfEdgeGeometry
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph, check_graph
from equigeo.mesh.nn.conv import PrimalDualConv, fitting_features
from equigeo.nn import Linear
from equigeo.nn.channel_mixing import Copies
from equigeo.ops import gather_sum
from equigeo.reps import Representation, TensorRep, Trivial

_GROUP = O(3)

_VECTOR, _MATRIX = TensorRep(_GROUP), TensorRep(_GROUP, up=2)
Pair = tuple[Representation, Representation]


@takes_integers
class PrimalDualFieldConv(nn.Module):
    r"""Convolve fields of any representation on faces and on pairs of adjacent faces.

    Scalars of the fields and lengths of the rest go through a :class:`PrimalDualConv`. Its
    attention :math:`a_{ij}` weights the messages; its results :math:`p_i`, :math:`d_{ij}` are the
    coefficients of normals :math:`n_i` and of steps :math:`s_{ij}` between centroids. An
    equivariant linear map L and gates give

    .. math:: x'_i = \sigma(G p_i) \cdot L\Bigl(x_i,\; \sum_j a_{ij} x_j,\;
              \sum_j a_{ij} (A d_{ij}) s_{ij},\; \sum_j a_{ij} (B d_{ij})\, s_{ij} \otimes s_{ij},\;
              (C p_i)\, n_i,\; p_i\Bigr)

    and likewise for pairs, from x and n of both faces, linked pairs and :math:`s \otimes s`.
    Equivariant to rotations and reflections, invariant to translation and scale of the mesh.
    Permuting faces permutes both results. Reference: Trang et al., "E(3)-Equivariant Mesh Neural
    Networks", AISTATS 2024.

    Parameters
    ----------
    rep_in, rep_out : (Representation, Representation)
        Orthogonal representations of O(3) on faces and on pairs.
    hidden : int
        Channels of the invariants per head.
    heads : int
        Attention heads.
    vectors : int
        Number of vectors of each kind from the mesh.

    Examples
    --------
    >>> from equigeo.mesh import TriangleMesh
    >>> from equigeo.reps import Irreps
    >>> faces = torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> graph = PrimalDualGraph.from_mesh(TriangleMesh(torch.eye(4, 3), faces))
    >>> conv = PrimalDualFieldConv((Irreps("1o"), Irreps("7x0e")), (Irreps("8x1o"), Irreps("2e")))
    >>> on_faces, on_pairs = conv(graph, torch.randn(4, 3), torch.randn(6, 7))
    >>> on_faces.shape, on_pairs.shape
    (torch.Size([4, 24]), torch.Size([6, 5]))
    """

    def __init__(
        self, rep_in: Pair, rep_out: Pair, *, hidden: int = 16, heads: int = 1, vectors: int = 8
    ) -> None:
        super().__init__()
        for rep in (*rep_in, *rep_out):
            if not isinstance(rep, Representation):
                raise TypeError(f"a field on a mesh has a Representation, got {kind_of(rep)}")
            if rep.group != _GROUP:
                raise ValueError(f"fields on a mesh turn by O(3), got {rep} of {rep.group}")
        if min(hidden, heads, vectors) < 1:
            raise ValueError(
                f"hidden, heads and vectors must be positive, got {hidden}, {heads} and {vectors}"
            )
        self.rep_in, self.rep_out, self.vectors = tuple(rep_in), tuple(rep_out), vectors
        on_faces, on_pairs = rep_in
        self.face_copies, self.pair_copies = Copies(on_faces), Copies(on_pairs)
        self.invariants = PrimalDualConv(
            (self.face_copies.count, self.pair_copies.count), (hidden, hidden),
            heads=heads, bias=True, self_term=True, coupling=True,
        )  # fmt: skip
        width = hidden * heads
        scalars, steps = Trivial(_GROUP, width), vectors * _VECTOR + vectors * _MATRIX
        self.face_linear = Linear(
            on_faces + on_faces + steps + vectors * _VECTOR + scalars, rep_out[0], biases=True
        )
        self.pair_linear = Linear(
            on_pairs + on_pairs + on_faces + vectors * _VECTOR + vectors * _MATRIX + scalars,
            rep_out[1],
            biases=True,
        )
        # For faces coefficients of normals, for pairs those of vectors and of matrices.
        self.face_coefficients = nn.Linear(width, vectors)
        self.pair_coefficients = nn.Linear(width, 4 * vectors)
        self.face_out, self.pair_out = (Copies(rep) for rep in rep_out)
        self.face_gates = nn.Linear(width, self.face_out.count)
        self.pair_gates = nn.Linear(width, self.pair_out.count)

    def extra_repr(self) -> str:
        return f"{self.rep_in} -> {self.rep_out}"

    def forward(
        self, graph: PrimalDualGraph, x_primal: Tensor, x_dual: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Convolve fields on faces (primal nodes, rep.dim) and on pairs (dual nodes, rep.dim).

        Of ``graph`` only edges and surface are used. It must have a surface that is wound outwards,
        as :meth:`PrimalDualGraph.from_mesh` makes it; otherwise a ``ValueError`` is raised.
        """
        check_graph(graph)
        widths = self.rep_in[0].dim, self.rep_in[1].dim
        x_primal, x_dual = fitting_features(graph, x_primal, x_dual, widths, self.face_gates.weight)
        vectors = FaceVectors.of(graph, x_primal.dtype)
        p, d, attention = self.invariants(
            graph, self.face_copies.invariants(x_primal), self.pair_copies.invariants(x_dual)
        )
        weight = attention.mean(1, keepdim=True)
        coefficients = self.pair_coefficients(d)
        on_faces = self._faces(graph, vectors, x_primal, p, coefficients, weight)
        on_pairs = self._pairs(graph, vectors, x_primal, x_dual, d, coefficients)
        return on_faces, on_pairs

    def _faces(
        self, graph: PrimalDualGraph, vectors: FaceVectors, x: Tensor, p: Tensor,
        coefficients: Tensor, weight: Tensor,
    ) -> Tensor:  # fmt: skip
        """Return the fields on faces from themselves, neighbors, steps and normals."""
        k, edges = self.vectors, graph.primal
        of_edges = coefficients[:, : 2 * k].index_select(0, graph.edge_to_dual)
        along, across = (weight * of_edges).split(k, 1)
        rows = [
            weight * x.index_select(0, edges.source),
            _times(along, vectors.step),
            _times(across, _squares(vectors.step)),
        ]
        each = torch.arange(edges.num_edges + 1, device=x.device)
        sums = gather_sum(torch.cat(rows, 1), each[:-1], edges.ptr, edges.target, each)
        normals = _times(self.face_coefficients(p), vectors.normal)
        out = self.face_linear(torch.cat([x, sums, normals, p], 1))
        return self.face_out.scale(out, self.face_gates(p).sigmoid())

    def _pairs(
        self, graph: PrimalDualGraph, vectors: FaceVectors, x_primal: Tensor, x_dual: Tensor,
        d: Tensor, coefficients: Tensor,
    ) -> Tensor:  # fmt: skip
        """Return the fields on pairs from themselves, linked pairs, faces, normals and steps."""
        k = self.vectors
        beside, squared = coefficients[:, 2 * k :].split(k, 1)
        links = graph.dual_edges
        degree = links.ptr.diff().clamp_min(1)[:, None].to(d.dtype)
        lower, higher = graph.undirected.unbind(1)
        both = torch.cat([x_primal, vectors.normal], 1)
        both = both.index_select(0, lower) + both.index_select(0, higher)
        step = vectors.pair_step
        if graph.dual is not DualKind.SINGLE:
            both, step = (t.repeat_interleave(2, 0) for t in (both, step))
        fields, normals = both[:, :-3], both[:, -3:]
        parts = [
            x_dual,
            links.sum(x_dual) / degree,
            fields,
            _times(beside, normals),
            _times(squared, _squares(step)),
            d,
        ]
        out = self.pair_linear(torch.cat(parts, 1))
        return self.pair_out.scale(out, self.pair_gates(d).sigmoid())


@dataclass(frozen=True, eq=False)
class FaceVectors:
    """Equivariant vectors on the nodes and edges of a primal graph."""

    normal: Tensor  # (primal nodes, 3): unit, outwards, vectors under reflections too
    step: Tensor  # (primal edges, 3): between centroids, per root mean face area
    pair_step: Tensor  # (undirected edges, 3): from the lower to the higher face

    @classmethod
    def of(cls, graph: PrimalDualGraph, dtype: torch.dtype) -> FaceVectors:
        """Measure the vectors on the outward-wound surface of a graph, differentiably."""
        surface = graph.surface
        if surface is None:
            raise ValueError("vectors are measured on a surface, and a pooled graph has none")
        if graph.features not in ("invariant", "multiscale"):
            raise ValueError(
                "normals are vectors where the mesh is wound outwards, which graphs with features "
                f"'invariant' and 'multiscale' are, got {graph.features!r}"
            )
        geometry = HalfEdgeGeometry.measure(surface.vertices, surface.faces)
        centroid = surface.vertices[surface.faces].mean(1)
        zeros = geometry.area.new_zeros(surface.num_meshes)
        area = zeros.index_add(0, surface.face_batch, geometry.area)
        count = zeros.index_add(0, surface.face_batch, torch.ones_like(geometry.area))
        # A mesh without area has no unit of its own.
        unit = torch.where(area > 0, area / count.clamp_min(1), 1).sqrt()
        place = centroid / unit[surface.face_batch, None]
        lower, higher = graph.undirected.unbind(1)
        return cls(
            normal=geometry.normal.to(dtype),
            step=(place[graph.primal.target] - place[graph.primal.source]).to(dtype),
            pair_step=(place[higher] - place[lower]).to(dtype),
        )


def _times(coefficients: Tensor, values: Tensor) -> Tensor:
    """Multiply values (rows, dim) by each of (rows, k) coefficients, (rows, k dim)."""
    return (coefficients[:, :, None] * values[:, None, :]).flatten(1)


def _squares(step: Tensor) -> Tensor:
    """Return the outer products (rows, 9) of vectors with themselves."""
    return (step[:, :, None] * step[:, None, :]).flatten(1)
