"""Figures of the documentation as plain SVG: meshes, clouds, images and curves.

Nothing but numpy is needed, and the same numbers give the same file.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Colors that are distinct with every kind of color vision (Okabe and Ito).
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a6f00", "#555555")
INK, GREY, GRID = "#222222", "#667085", "#dfe3ea"
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
LIGHT = np.array([0.35, 0.75, 0.6])


class Drawing:
    """An SVG image on white.

    Parameters
    ----------
    width, height : int
        In pixels.
    """

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.parts: list[str] = []

    def line(self, points: ArrayLike, color: str = INK, width: float = 1.5, dash: str = "") -> None:
        """Draw a line through points in pixels."""
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<polyline points="{_pixels(points)}" fill="none" stroke="{color}" '
            f'stroke-width="{width:g}" stroke-linejoin="round" stroke-linecap="round"{dashed}/>'
        )

    def polygon(self, points: ArrayLike, fill: str, edge: str | None = None) -> None:
        """Fill a polygon, its edge in its own color so that neighbors leave no gap."""
        self.parts.append(
            f'<path d="M{_pixels(points)}Z" fill="{fill}" stroke="{edge or fill}" '
            'stroke-width=".6" stroke-linejoin="round"/>'
        )

    def circle(self, center: ArrayLike, radius: float, fill: str) -> None:
        """Draw a disc."""
        x, y = np.asarray(center, dtype=float)
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}"/>')

    def marker(self, center: ArrayLike, number: int, fill: str) -> None:
        """Draw one of four marker shapes: disc, square, triangle and diamond."""
        corners, turn = ((0, 0), (4, 45), (3, 90), (4, 0))[number % 4]
        if not corners:
            return self.circle(center, 3.4, fill)
        angles = np.radians(turn + np.arange(corners) * 360 / corners)
        around = 4.6 * np.stack([np.cos(angles), -np.sin(angles)], axis=1)
        return self.polygon(np.asarray(center, dtype=float) + around, fill)

    def arrow(self, start: ArrayLike, end: ArrayLike, color: str = INK, width: float = 2) -> None:
        """Draw a line with a head at its end."""
        start, end = np.asarray(start, dtype=float), np.asarray(end, dtype=float)
        along = (end - start) / max(float(np.linalg.norm(end - start)), 1e-9)
        across = np.array([-along[1], along[0]])
        size = 2.5 * width + 2
        back = end - size * along
        self.line([start, back], color, width)
        self.polygon([end, back + size / 2 * across, back - size / 2 * across], color)

    def text(
        self,
        at: ArrayLike,
        text: str,
        *,
        size: float = 13,
        anchor: str = "middle",
        color: str = INK,
        bold: bool = False,
        turn: float = 0.0,
    ) -> None:
        """Write text; ``anchor`` is start, middle or end, ``turn`` in degrees."""
        x, y = np.asarray(at, dtype=float)
        weight = ' font-weight="600"' if bold else ""
        turned = f' transform="rotate({turn:g} {x:.1f} {y:.1f})"' if turn else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" '
            f'fill="{color}"{weight}{turned}>{escape(text)}</text>'
        )

    def image(self, values: ArrayLike, at: tuple[float, float], size: float) -> None:
        """Show a matrix as gray pixels, from white for 0 to black for its maximum."""
        values = np.asarray(values, dtype=float)
        grey = np.uint8(255 - 255 * np.clip(values / max(float(values.max()), 1e-9), 0, 1))
        data = base64.b64encode(_png(grey)).decode()
        x, y = at
        self.parts.append(
            f'<image x="{x:g}" y="{y:g}" width="{size:g}" height="{size:g}" '
            f'style="image-rendering:pixelated" href="data:image/png;base64,{data}"/>'
            f'<rect x="{x:g}" y="{y:g}" width="{size:g}" height="{size:g}" fill="none" '
            f'stroke="{GRID}"/>'
        )

    def mesh(
        self,
        vertices: ArrayLike,
        faces: ArrayLike,
        colors: Sequence[str],
        box: tuple[float, float, float, float],
        view: ArrayLike | None = None,
    ) -> None:
        """Draw a triangle mesh, shaded, far faces first.

        Parameters
        ----------
        vertices : array, (vertices, 3)
            Corners.
        faces : array, (faces, 3)
            Their indices, counter-clockwise from outside.
        colors : sequence of str
            Of the faces, as ``#rrggbb``.
        box : tuple of float
            Left, top, width and height in pixels; the mesh fills it.
        view : array, (3, 3), optional
            Rows point to the right, upwards and to the viewer.
        """
        turned = np.asarray(vertices, dtype=float) @ (_VIEW if view is None else np.asarray(view)).T
        faces = np.asarray(faces)
        flat = fit(turned[:, :2], box)
        corners = turned[faces]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
        shades = 0.62 + 0.38 * np.clip(normals @ (LIGHT / np.linalg.norm(LIGHT)), 0, 1)
        for face in np.argsort(corners[:, :, 2].mean(1)):
            if normals[face, 2] > 0:
                self.polygon(flat[faces[face]], _shaded(colors[face], shades[face]))

    def svg(self) -> str:
        """Return the file."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" font-family="{escape(FONT)}">'
            f'<rect width="100%" height="100%" rx="6" fill="#ffffff"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )

    def save(self, path: str | Path) -> None:
        """Write the file."""
        Path(path).write_text(self.svg())


def plot(
    curves: dict[str, tuple[ArrayLike, ArrayLike]],
    *,
    x: str,
    y: str,
    title: str = "",
    log_x: bool = False,
    log_y: bool = False,
    marks: bool = True,
) -> Drawing:
    """Draw curves with axes and names.

    Parameters
    ----------
    curves : dict of pairs of arrays
        Abscissae and ordinates of each curve, by name.
    x, y : str
        Names of the axes, with units.
    title : str
        Above the axes.
    log_x, log_y : bool
        Whether an axis is logarithmic.
    marks : bool
        Whether to mark the points.
    """
    drawing = Drawing(640, 340)
    left, top, width, height = 70, 34, 390, 250
    scale_x = _Axis([values for values, _ in curves.values()], log_x, left, left + width)
    scale_y = _Axis([values for _, values in curves.values()], log_y, top + height, top)
    for value in scale_x.ticks():
        at = scale_x(value)
        drawing.line([(at, top), (at, top + height)], GRID, 1)
        drawing.text((at, top + height + 18), _number(value), size=12, color=GREY)
    for value in scale_y.ticks():
        at = scale_y(value)
        drawing.line([(left, at), (left + width, at)], GRID, 1)
        drawing.text((left - 8, at + 4), _number(value), size=12, anchor="end", color=GREY)
    drawing.text((left + width / 2, top + height + 40), x)
    drawing.text((18, top + height / 2), y, turn=-90)
    drawing.text((left, 20), title, anchor="start", bold=True)
    for number, (name, (abscissae, ordinates)) in enumerate(curves.items()):
        color = COLORS[number % len(COLORS)]
        points = [*zip(map(scale_x, abscissae), map(scale_y, ordinates), strict=True)]
        drawing.line(points, color, 2)
        for point in points if marks else ():
            drawing.marker(point, number, color)
        at = top + 10 + 20 * number
        drawing.line([(left + width + 14, at), (left + width + 34, at)], color, 2)
        if marks:
            drawing.marker((left + width + 24, at), number, color)
        drawing.text((left + width + 40, at + 4), name, size=12, anchor="start")
    return drawing


def _number(value: float) -> str:
    """Write a tick: powers of ten in full up to a hundred thousand."""
    if 0 < abs(value) < 0.01:
        return f"{value:.0e}"
    return f"{value:,.0f}" if 1000 <= value <= 100_000 else f"{value:.4g}"


class _Axis:
    """Maps values to pixels."""

    def __init__(self, values: Sequence[ArrayLike], log: bool, start: float, end: float) -> None:
        flat = np.concatenate([np.asarray(part, dtype=float).ravel() for part in values])
        self.log, self.start, self.end = log, start, end
        low, high = (
            (np.log10(flat.min()), np.log10(flat.max())) if log else (flat.min(), flat.max())
        )
        margin = 0.05 * (high - low or 1)
        self.low, self.high = low - margin, high + margin

    def __call__(self, value: float) -> float:
        value = np.log10(value) if self.log else value
        share = (value - self.low) / (self.high - self.low)
        return float(self.start + share * (self.end - self.start))

    def ticks(self) -> NDArray[np.float64]:
        """Choose about five round numbers."""
        if self.log:
            powers = np.arange(np.ceil(self.low), np.floor(self.high) + 1)
            if len(powers) >= 2:
                return 10.0 ** powers[:: max(1, len(powers) // 6)]
            steps = np.array([1, 2, 3, 5])
            all_ = np.outer(10.0 ** np.arange(-9, 10), steps).ravel()
            return all_[(all_ >= 10**self.low) & (all_ <= 10**self.high)]
        rough = (self.high - self.low) / 5
        unit = 10 ** np.floor(np.log10(rough))
        step = unit * min((1, 2, 5, 10), key=lambda factor: abs(factor * unit - rough))
        first = np.ceil(self.low / step) * step
        ticks = np.arange(first, self.high + 1e-9 * step, step)
        return np.where(np.abs(ticks) < 1e-9 * step, 0.0, ticks)


def fit(points: ArrayLike, box: tuple[float, float, float, float]) -> NDArray[np.float64]:
    """Scale points in the plane, y upwards, into a box of pixels, y downwards."""
    points = np.asarray(points, dtype=float)
    left, top, width, height = box
    low, high = points.min(0), points.max(0)
    scale = min(
        size / max(extent, 1e-9) for size, extent in zip((width, height), high - low, strict=True)
    )
    middle = np.array([left + width / 2, top + height / 2])
    return middle + (points - (low + high) / 2) * (scale, -scale)


def view_from(azimuth: float, elevation: float) -> NDArray[np.float64]:
    """Turn the view, for vertices whose third coordinate points upwards; in degrees."""
    a, e = np.radians([azimuth, elevation])
    right = [-np.sin(a), np.cos(a), 0]
    toward = [np.cos(a) * np.cos(e), np.sin(a) * np.cos(e), np.sin(e)]
    return np.array([right, np.cross(toward, right), toward])


_VIEW = view_from(35, 20)


def tilt(axes: ArrayLike, turn: float = 25, down: float = 15) -> NDArray[np.float64]:
    """Look at axes (to the right, upwards, to the viewer) from the side and from above."""
    a, b = np.radians([turn, down])
    turned = np.array([[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]])
    tilted = np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    return tilted @ turned @ np.asarray(axes, dtype=float)


def blend(first: str, second: str, share: float) -> str:
    """Mix two colors; ``share`` is that of the second."""
    a, b = (np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) for color in (first, second))
    return "#{:02x}{:02x}{:02x}".format(*np.uint8(np.round(a + np.clip(share, 0, 1) * (b - a))))


def diverging(value: float, largest: float) -> str:
    """Return blue for negative values, white for zero and orange for positive ones."""
    share = abs(value) / max(largest, 1e-12)
    return blend("#ffffff", COLORS[1] if value > 0 else COLORS[0], min(1.0, share))


def sphere(latitudes: int = 24) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return vertices and faces of a unit sphere."""
    theta = np.linspace(0, np.pi, latitudes + 1)[:, None]
    phi = np.linspace(0, 2 * np.pi, 2 * latitudes, endpoint=False)[None]
    rows = np.stack(
        np.broadcast_arrays(
            np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)
        ),
        axis=-1,
    )
    i, j = np.meshgrid(np.arange(latitudes), np.arange(2 * latitudes), indexing="ij")
    k = (j + 1) % (2 * latitudes)
    n = 2 * latitudes
    quads = np.stack([i * n + j, (i + 1) * n + j, (i + 1) * n + k, i * n + k], axis=-1)
    return rows.reshape(-1, 3), quads.reshape(-1, 4)


def _shaded(color: str, share: float) -> str:
    return blend("#000000", color, share)


def _pixels(points: ArrayLike) -> str:
    rows = np.asarray(points, dtype=float)
    return " ".join(f"{x:.1f} {y:.1f}" for x, y in rows)


def _png(grey: NDArray[np.uint8]) -> bytes:
    """Encode eight bits a pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    height, width = grey.shape
    rows = b"".join(b"\0" + row.tobytes() for row in grey)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + chunk(b"IEND", b"")
    )
