"""Invariant features of faces and of pairs of adjacent faces."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from equigeo.mesh.geometry.ball_features import BALL_CHANNELS, ball_features
from equigeo.mesh.geometry.dual_kind import DualKind
from equigeo.mesh.geometry.half_edge_geometry import HalfEdgeGeometry
from equigeo.mesh.geometry.surface import Surface

# Area over mean area, clamped before the logarithm: smaller faces add nothing to a mean over the
# surface, and their areas may be rounding errors.
_LEAST_AREA = 1e-4

FeatureSet = Literal["invariant", "reference", "multiscale"]


def feature_channels(dual: DualKind, features: FeatureSet) -> tuple[int, int]:
    """Return the numbers of primal and dual channels of :func:`compute_features`."""
    if features == "multiscale":
        return BALL_CHANNELS, BALL_CHANNELS
    angle = 2 if features == "invariant" else 1
    ratios = 6 if dual is DualKind.SINGLE else 3
    return 1, angle + ratios


def compute_features(
    surface: Surface, dual: DualKind, features: FeatureSet
) -> tuple[Tensor, Tensor]:
    """Compute primal (faces, channels) and dual (dual nodes, channels) node features in float64."""
    if features not in get_args(FeatureSet):
        raise ValueError(f"features must be one of {get_args(FeatureSet)}, got {features!r}")
    # "reference" follows PD-MeshNet: area share; dihedral angle and the edge/height and edge/edge
    # ratios of both sides, the side with the smaller edge/height ratio first. "invariant" uses
    # symmetric functions, logarithms, and cosine and sine.
    if features == "multiscale":
        x_primal = ball_features(surface)
        return x_primal, _face_to_dual(surface, x_primal, dual)
    geometry = HalfEdgeGeometry.measure(_scaled(surface), surface.faces)
    angle = geometry.dihedral_angle(surface.pairs)[:, None]
    if features == "invariant":
        # The normal of a face without area is rounding, and so is an angle with it.
        sure = geometry.sureness[surface.pairs // 3].prod(dim=1, keepdim=True)
        angle, sides = torch.cat((angle.cos(), angle.sin()), 1) * sure, _symmetric_sides(geometry)
    else:
        sides = _ordered_sides(geometry)
    two_sides = sides.reshape(-1, 3)[surface.pairs]
    if dual is not DualKind.SINGLE:
        x_dual = _one_node_per_side(angle, two_sides)
    else:
        symmetric = features == "invariant"
        pair = _symmetric_pair(two_sides) if symmetric else _ordered_pair(two_sides)
        x_dual = torch.cat((angle, pair), dim=1)
    x_dual = surface.mean_over_edges(x_dual.flatten(1)).reshape(-1, x_dual.shape[-1])
    share = _area_share(surface, geometry.area)
    if features == "invariant":
        # Area over mean area: share times number of faces.
        count = torch.bincount(surface.face_batch, minlength=surface.num_meshes)
        share = (share * count[surface.face_batch, None]).clamp_min(_LEAST_AREA).log()
    return share, x_dual


def _scaled(surface: Surface) -> Tensor:
    """Scale positions by a power of two near the longest edge of each mesh, (vertices, 3)."""
    corner = surface.vertices[surface.faces]
    longest = (corner.roll(-1, dims=1) - corner).abs().amax((1, 2))
    largest = longest.new_zeros(surface.num_meshes)
    largest = largest.scatter_reduce(0, surface.face_batch, longest, "amax")
    exponent = torch.frexp(largest).exponent.clamp(-1000, 1000)
    # Exact, so that features have the same bits at every scale.
    return torch.ldexp(surface.vertices, -exponent[surface.vertex_batch, None])


def _face_to_dual(surface: Surface, x: Tensor, dual: DualKind) -> Tensor:
    """Average the two faces of each pair, or take the source face per direction."""
    two_sides = x[surface.edges()]
    return two_sides.mean(dim=1) if dual is DualKind.SINGLE else two_sides.flatten(0, 1)


def _area_share(surface: Surface, area: Tensor) -> Tensor:
    """Return the area of each face over that of its mesh, (faces, 1)."""
    tiny = torch.finfo(area.dtype).tiny  # a face without area must not become log 0
    total = area.new_zeros(surface.num_meshes).index_add(0, surface.face_batch, area)
    return (area.clamp_min(tiny) / total.clamp_min(tiny)[surface.face_batch])[:, None]


def _ordered_sides(geometry: HalfEdgeGeometry) -> Tensor:
    """Return edge/height, previous and next ratio per half-edge, (faces, 3, 3)."""
    previous, following = geometry.edge_edge_ratios()
    return torch.stack((geometry.edge_height_ratio(), previous, following), dim=-1)


def _symmetric_sides(geometry: HalfEdgeGeometry) -> Tensor:
    """Return logarithms of edge/height, smaller and larger edge/edge ratio, (faces, 3, 3)."""
    # A mirror image exchanges the previous and the next edge; smaller and larger stay what they
    # are. The logarithm makes a ratio and its inverse opposite numbers.
    previous, following = geometry.edge_edge_ratios()
    smaller, larger = torch.minimum(previous, following), torch.maximum(previous, following)
    return torch.stack((geometry.edge_height_ratio(), smaller, larger), dim=-1).log()


def _one_node_per_side(angle: Tensor, two_sides: Tensor) -> Tensor:
    """Return angle and ratios in the source face, (pairs, 2, channels); node 2u starts below."""
    return torch.cat((angle[:, None].expand(-1, 2, -1), two_sides), dim=-1)


def _symmetric_pair(two_sides: Tensor) -> Tensor:
    """Return mean and absolute difference of the ratios, (pairs, 6)."""
    difference = (two_sides[:, 0] - two_sides[:, 1]).abs()
    return torch.cat((two_sides.mean(dim=1), difference), dim=1)


def _ordered_pair(two_sides: Tensor) -> Tensor:
    """Return ratios on the side of the smaller edge/height and on the other, (pairs, 6)."""
    lower, higher = two_sides.unbind(1)
    lower_first = (lower[:, 0] < higher[:, 0])[:, None]
    first = torch.where(lower_first, lower, higher)
    second = torch.where(lower_first, higher, lower)
    return torch.stack((first, second), dim=-1).reshape(-1, 6)
