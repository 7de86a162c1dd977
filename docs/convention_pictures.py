"""Pictures of the pages on conventions, on the price of freedom and on invariant networks.

python docs/convention_pictures.py docs/pictures
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

from equigeo import mds
from equigeo import tensor_products as tp

sys.path.insert(0, str(Path(__file__).parent))
from drawing import COLORS, GREY, GRID, Drawing, blend, diverging, plot, sphere, view_from

VIEW = view_from(30, 25)
NAMES = (("0",), ("x", "y", "z"), ("xz", "xy", "2y²−x²−z²", "yz", "z²−x²"))
PALE = [blend(color, "#ffffff", 0.6) for color in COLORS]


def basis() -> Drawing:
    """Real spherical harmonics up to degree 2, in the order of components."""
    drawing = Drawing(640, 330)
    vertices, faces = sphere(10)
    centers = torch.from_numpy(vertices[faces].mean(1))
    for l in range(3):
        values = tp.spherical_harmonics([l], centers, True, "component").T.tolist()
        for m, row in enumerate(values, -l):
            left, top = 280 + 112 * m, 8 + 104 * l
            largest = max(map(abs, row))
            colors = [diverging(value, largest) for value in row]
            drawing.mesh(vertices, faces, colors, (left, top, 78, 78), VIEW)
            name = "1" if l == 0 else NAMES[l][m + l]
            drawing.text((left + 39, top + 96), f"{m + l}:  {name}", size=12)
        drawing.text((10, 52 + 104 * l), f"l = {l}", anchor="start", bold=True)
    for axis, name in zip(np.eye(3), "xyz", strict=True):
        end = np.array([570, 60]) + 38 * (VIEW @ axis)[:2] * (1, -1)
        drawing.arrow((570, 60), end, GREY, 1.5)
        drawing.text(end + (8, -2), name, size=12, color=GREY)
    return drawing


def layouts() -> Drawing:
    """Where the numbers of 2x0e + 3x1o are, in either layout."""
    drawing = Drawing(640, 150)
    for top, name, cells in (
        (20, "mul_ir", [(c, m) for c in range(3) for m in "xyz"]),
        (86, "ir_mul", [(c, m) for m in "xyz" for c in range(3)]),
    ):
        drawing.text((10, top + 26), name, anchor="start", bold=True)
        for number, text in enumerate(["s₀", "s₁"]):
            cell(drawing, 80 + 46 * number, top, text, "#eef1f5")
        for number, (copy, component) in enumerate(cells):
            text = f"{component}{'₀₁₂'[copy]}"
            cell(drawing, 180 + 46 * number, top, text, PALE[copy])
    return drawing


def cell(drawing: Drawing, left: float, top: float, text: str, color: str) -> None:
    """One number of a row."""
    corners = [(left, top), (left + 42, top), (left + 42, top + 42), (left, top + 42)]
    drawing.polygon(corners, color, GRID)
    drawing.text((left + 21, top + 27), text, size=15)


def edges() -> Drawing:
    """An edge, its vector, and where its message goes."""
    drawing = Drawing(640, 150)
    source, target = np.array([130, 95]), np.array([470, 75])
    drawing.arrow(source + (22, -3), target - (22, -3), COLORS[0], 3)
    for point, name, row in ((source, "s", 0), (target, "t", 1)):
        drawing.circle(point, 18, PALE[0])
        drawing.text(point + (0, 5), name, size=15, bold=True)
        role = "source" if row == 0 else "target"
        drawing.text(point + (0, -28), f"{role}: edge_index[{row}]", size=12.5, color=GREY)
    drawing.text((300, 72), "message", size=13, color=COLORS[0])
    drawing.text((300, 140), "vector = positions[t] − positions[s] + shift @ cell", size=12.5)
    return drawing


def parity() -> Drawing:
    """A vector and a pseudovector in a mirror."""
    drawing = Drawing(640, 190)
    for left, name, flips in (
        (60, "1o: a vector (velocity, force)", True),
        (370, "1e: a pseudovector (angular velocity)", False),
    ):
        middle = left + 110
        drawing.line([(middle, 18), (middle, 145)], GREY, 1.5, "5 4")
        start, along = np.array([left + 40, 110]), np.array([52, -60])
        drawing.arrow(start, start + along, COLORS[0], 3)
        start = np.array([left + 180, 110])
        along = along * (-1, 1) if flips else along * (1, -1)
        start = start if flips else start + (-20, -58)
        drawing.arrow(start, start + along, COLORS[1], 3)
        drawing.text((middle, 172), name, size=13)
        drawing.text((middle, 12), "mirror", size=11, color=GREY)
    return drawing


def mesh_graphs() -> Drawing:
    """Faces of a mesh, and the nodes and edges of both graphs."""
    drawing = Drawing(640, 230)
    corners = np.array([[60, 190], [200, 200], [130, 80], [275, 95], [210, 20]])
    faces = [(0, 1, 2), (1, 3, 2), (2, 3, 4)]
    for face in faces:
        drawing.polygon(corners[list(face)], "#f3f5f9", GREY)
    centers = np.array([corners[list(face)].mean(0) for face in faces])
    drawing.line(centers, COLORS[0], 2.5)
    for number, center in enumerate(centers):
        drawing.circle(center, 12, PALE[0])
        drawing.text(center + (0, 5), str(number), bold=True)
    for a, b in ((0, 1), (1, 2)):
        x, y = (centers[a] + centers[b]) / 2
        drawing.polygon([(x - 6, y - 6), (x + 6, y - 6), (x + 6, y + 6), (x - 6, y + 6)], COLORS[1])
    drawing.circle((345, 60), 9, PALE[0])
    drawing.text((365, 65), "primal node: a face", anchor="start")
    drawing.line([(336, 95), (354, 95)], COLORS[0], 2.5)
    drawing.text((365, 100), "primal edge: faces that share an edge", anchor="start")
    drawing.polygon([(339, 124), (351, 124), (351, 136), (339, 136)], COLORS[1])
    drawing.text((365, 135), "dual node: such a pair of faces", anchor="start")
    drawing.text((365, 170), "corners counter-clockwise from outside", anchor="start", color=GREY)
    return drawing


PRICES = {
    "full even": "CG, dense",
    "full_sparse even": "CG, sparse",
    "gaunt grid": "Gaunt, grid",
    "gaunt fourier": "Gaunt, Fourier",
    "gaunt paths": "Gaunt, paths",
    "matrix": "matrix product",
    "vector_signal": "vector signals",
}


def price_of_freedom() -> Drawing:
    """Time per degree of freedom by degree, from the committed record."""
    record = Path(__file__).parents[1] / "bench" / "results" / "price_of_freedom.json"
    curves: dict[str, tuple[list[int], list[float]]] = {name: ([], []) for name in PRICES.values()}
    for run in json.loads(record.read_text())["runs"]:
        for row in run["comparison"]["rows"]:
            wanted = run["setting"] == "mimo" and run["batch"] == 10000
            if wanted and row["product"] in PRICES:
                degrees, times = curves[PRICES[row["product"]]]
                degrees.append(run["lmax"])
                times.append(1e3 * row["milliseconds"] / row["degrees_of_freedom"])
    return plot(
        curves, x="largest degree L", y="µs per degree of freedom",
        title="MIMO, batch 10,000, one thread", log_y=True,
    )  # fmt: skip


def ties() -> Drawing:
    """Largest change of an average over frames per step, on a path where two eigenvalues cross."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    x = x - x.mean(0)
    whitened = x @ torch.linalg.inv(torch.linalg.cholesky(x.mT @ x)).mT
    weights = torch.randn(3, 16, generator=generator, dtype=torch.float64)
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for kind, name in (("joint", "one frame"), ("weighted", "weighted frames")):
        steps, changes = curves.setdefault(name, ([], []))
        for count in (32, 128, 512, 2048):
            times = torch.linspace(-0.2, 0.2, count, dtype=torch.float64)
            sizes = torch.stack([1 + times, 1 - times, 0.5 + 0 * times], -1)
            frames = mds.frames(whitened * sizes[:, None], kind=kind)
            mean = mds.frame_average(lambda y: torch.tanh(3 * y @ weights).amax(-2), frames)
            steps.append(float(times[1] - times[0]))
            changes.append(float(mean.diff(dim=0).abs().max()))
    return plot(
        curves, x="step", y="largest change",
        title="Two eigenvalues cross", log_x=True, log_y=True,
    )  # fmt: skip


def stability() -> Drawing:
    """Shares of halves in which axes of random clouds are kept, by stability."""
    generator = torch.Generator().manual_seed(0)
    quiet = mds.EmbedOptions(fallback="ignore")
    found, kept = [], []
    for _ in range(200):
        widths = 1 - 0.6 * torch.rand(3, generator=generator, dtype=torch.float64)
        x = torch.randn(400, 3, generator=generator, dtype=torch.float64) * widths
        x = x + 0.1 * torch.rand(3, generator=generator, dtype=torch.float64) * x.square()
        whole = mds.embed(x, options=quiet)
        halves = torch.rand(100, 400, generator=generator).argsort(1)[:, :200]
        same = (whole.frame * mds.embed(x[halves], options=quiet).frame).sum(-2) > 3**0.5 / 2
        found.append(whole.stability)
        kept.append(same.double().mean(0))
    order = torch.cat(found).argsort()
    means = [torch.cat(values)[order].view(12, -1).mean(1) for values in (found, kept)]
    curves = {"share of halves": (means[0], means[1]), "equal": (means[0], means[0])}
    return plot(curves, x="stability", y="axes kept", title="Axes of random clouds")


if __name__ == "__main__":
    for draw in (basis, layouts, edges, parity, mesh_graphs, price_of_freedom, ties, stability):
        draw().save(Path(sys.argv[1]) / f"{draw.__name__}.svg")
