"""The picture of README: one panel from each family, computed by the library.

python docs/picture.py docs/picture.svg
"""

from __future__ import annotations

import colorsys
import math
import sys
from pathlib import Path

import numpy as np
import torch

from equigeo import mds
from equigeo import tensor_products as tp
from equigeo.affine import MomentFrame
from equigeo.datasets import articulated_parts
from equigeo.groups import SO
from equigeo.mesh import EdgePool, PrimalDualConv, PrimalDualGraph, TriangleMesh

sys.path.insert(0, str(Path(__file__).parent))
from drawing import COLORS, GREY, Drawing, blend, diverging, fit, sphere, tilt, view_from

WIDTH, PANEL, HEIGHT = 1000, 250, 270
VIEW = view_from(40, 22)


def sphere_product(drawing: Drawing, left: float) -> None:
    """Two functions on the sphere and the one that GauntTensorProduct makes of them."""
    generator = torch.Generator().manual_seed(11)
    product = tp.GauntTensorProduct(2, 2, 4)
    first, second = torch.randn(2, 9, generator=generator)
    vertices, faces = sphere(17)
    centers = torch.from_numpy(vertices[faces].mean(1)).float()
    boxes = ((left + 20, 20, 95, 95), (left + 135, 20, 95, 95), (left + 70, 138, 110, 110))
    for coefficients, lmax, box in zip(
        (first, second, product(first, second)), (2, 2, 4), boxes, strict=True
    ):
        basis = tp.spherical_harmonics(list(range(lmax + 1)), centers, True, "component")
        values = (basis @ coefficients).tolist()
        largest = max(map(abs, values))
        drawing.mesh(vertices, faces, [diverging(v, largest) for v in values], box, VIEW)
    drawing.text((left + 125, 74), "·", size=30)
    drawing.text((left + 52, 200), "=", size=22)


def affine_digit(drawing: Drawing, left: float) -> None:
    """A digit under three affine maps, and what its own frame shows of each."""
    frame = MomentFrame(size=48, extent=3.0)
    for number, (turn, stretch, shear) in enumerate(
        [(0.0, 1.0, 0.0), (0.7, 1.3, 0.4), (-0.9, 0.85, -0.5)]
    ):
        image = digit(turn, stretch, shear)
        seen = frame(image)[0, 0]
        at = left + 12 + 77 * number
        drawing.image(image[0, 0], (at, 32), 70)
        drawing.image(seen, (at, 164), 70)
        drawing.arrow((at + 35, 112), (at + 35, 154), GREY, 1.5)


def digit(turn: float, stretch: float, shear: float, size: int = 64) -> torch.Tensor:
    """Draw a seven as strokes, moved by a linear map."""
    strokes = torch.tensor([[-0.5, 0.75], [0.5, 0.75], [-0.1, -0.75]])
    c, s = math.cos(turn), math.sin(turn)
    linear = torch.tensor([[c, -s], [s, c]]) @ torch.tensor([[stretch, shear], [0.0, 1 / stretch]])
    axis = torch.linspace(-1.7, 1.7, size)
    pixels = torch.stack(torch.meshgrid(-axis, axis, indexing="ij"), -1).flip(-1)
    back = pixels @ torch.linalg.inv(linear).mT
    distance = torch.full((size, size), 9.0)
    for a, b in zip(strokes, strokes[1:], strict=False):
        along = ((back - a) @ (b - a) / (b - a).square().sum()).clamp(0, 1)
        distance = torch.minimum(distance, (back - a - along[..., None] * (b - a)).norm(dim=-1))
    return torch.sigmoid((0.13 - distance) / 0.025)[None, None]


def merged_clusters(drawing: Drawing, left: float, mesh: TriangleMesh) -> None:
    """The clusters that pooling by attention makes of the faces of a mesh."""
    torch.manual_seed(0)
    graph = PrimalDualGraph.from_mesh(mesh)
    with torch.no_grad():
        conv = PrimalDualConv((graph.x_primal.shape[1], 8), (graph.x_dual.shape[1], 8))
        _, _, attention = conv(graph, graph.x_primal, graph.x_dual)
        _, log = EdgePool(keep=0.4, max_cluster_size=12)(graph, attention)
    shades = [distinct(cluster) for cluster in log.cluster.tolist()]
    drawing.mesh(
        mesh.vertices.numpy(),
        mesh.faces.numpy(),
        shades,
        (left + 10, 22, 230, 226),
        side_view(mesh),
    )


def embedded_clouds(drawing: Drawing, left: float, mesh: TriangleMesh) -> None:
    """A cloud in two poses, with its frame, and the one embedding of both."""
    generator = torch.Generator().manual_seed(3)
    cloud = mesh.vertices[::2].float()
    turns = SO(3).haar(2, generator=generator).float()
    for number, turn in enumerate(turns):
        moved = cloud @ turn.mT
        result = mds.embed(moved)
        flat = cloud_points(drawing, moved.numpy(), (left + 15 + 118 * number, 20, 100, 100))
        center, *axes = fit_axes(moved, result.frame, flat)
        for axis, color in zip(axes, COLORS[1:4], strict=True):
            drawing.arrow(center, axis, color, 2)
        start = (left + 70 + 110 * number, 124)
        drawing.arrow(start, (left + 110 + 30 * number, 148), GREY, 1.5)
    cloud_points(drawing, result.y.numpy()[:, [2, 1, 0]], (left + 60, 152, 130, 100))


def cloud_points(drawing: Drawing, points: np.ndarray, box: tuple[float, ...]) -> tuple:
    """Draw points, near ones darker; give the points before and after."""
    turned = points @ VIEW.T
    flat = fit(turned[:, :2], box)
    depth = (turned[:, 2] - turned[:, 2].min()) / np.ptp(turned[:, 2])
    for point, near in sorted(zip(flat.tolist(), depth, strict=True), key=lambda pair: pair[1]):
        drawing.circle(point, 1.7, blend("#b9d3e6", COLORS[0], near))
    return turned, flat


def fit_axes(points: torch.Tensor, frame: torch.Tensor, flat: tuple) -> np.ndarray:
    """Where the centroid and the ends of the axes are in the picture."""
    turned, pixels = flat
    size = np.ptp(pixels, 0).max() / np.ptp(turned[:, :2], 0).max()
    ends = (
        torch.cat([torch.zeros(1, 3), 1.5 * (points - points.mean(0)).std() * frame.mT]).numpy()
        @ VIEW.T
    )
    return pixels.mean(0) + ends[:, :2] * (size, -size)


def side_view(mesh: TriangleMesh) -> np.ndarray:
    """Look along the third principal axis; the horse's feet are where its skewness points."""
    axes = mds.embed(mesh.vertices, group="SO").frame.mT.numpy()
    return tilt(axes * [[1], [-1], [-1]])


def distinct(number: int) -> str:
    """A color of its own for every number."""
    red, green, blue = colorsys.hsv_to_rgb(0.618034 * number % 1, 0.45, 0.8 + 0.09 * (number % 3))
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


def picture() -> Drawing:
    """Draw all panels."""
    shapes = articulated_parts(0, per_class=2, faces=500)
    meshes = dict(zip(shapes.names, shapes.meshes, strict=True))
    drawing = Drawing(WIDTH, HEIGHT + 30)
    sphere_product(drawing, 0)
    affine_digit(drawing, PANEL)
    merged_clusters(drawing, 2 * PANEL, meshes["horse/0"])
    embedded_clouds(drawing, 3 * PANEL, meshes["dog/0"])
    for number, caption in enumerate(CAPTIONS):
        drawing.text((PANEL * (number + 0.5), HEIGHT + 12), caption, size=12.5, color=GREY)
    return drawing


CAPTIONS = (
    "a product of functions on the sphere",
    "affine copies and their moment frames",
    "faces merged by pooling",
    "two poses, one embedding",
)

if __name__ == "__main__":
    picture().save(sys.argv[1])
