"""Triangle mesh: vertex positions and triangles."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from equigeo._core.checks import TensorLike, as_tensor, kind_of
from equigeo.mesh.errors import MeshError

if TYPE_CHECKING:
    from trimesh import Scene, Trimesh


@dataclass(frozen=True, eq=False, repr=False)
class TriangleMesh:
    """Immutable vertex positions and triangles, validated at construction.

    Parameters
    ----------
    vertices : Tensor or ndarray, (vertices, 3), floating
        Positions, in any unit; converted to float64.
    faces : Tensor or ndarray, (faces, 3), integer
        Vertex indices; the right-hand rule gives the normal. Converted to int64.
    pairs : Tensor or ndarray, (pairs, 2), integer, optional
        Half-edges along which faces continue each other, if vertices alone do not determine this
        (edges of more than two faces). Half-edge ``3 f + k`` runs from corner ``k`` of face ``f``
        to the next. By default, faces continue each other along every shared edge.
    inputs : mapping of str to Tensor or ndarray, (faces,)
        Finite values of faces by name, which networks read with ``inputs=``. Three names that
        differ in a final x, y and z are a vector, which turns with the mesh.

    Raises
    ------
    ValueError
        If a shape, dtype, index or pair is invalid, or a position or input is not finite.

    Examples
    --------
    >>> mesh = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
    >>> mesh.num_faces, mesh.vertices.dtype
    (1, torch.float64)
    """

    vertices: Tensor
    faces: Tensor
    pairs: Tensor | None = None
    inputs: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        vertices, faces = as_tensor(self.vertices, "vertices"), as_tensor(self.faces, "faces")
        if vertices.ndim != 2 or vertices.shape[1] != 3 or not vertices.is_floating_point():
            raise ValueError(
                "vertices must be floating (vertices, 3), "
                f"got {vertices.dtype} {tuple(vertices.shape)}"
            )
        if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype not in _INTEGERS:
            raise ValueError(
                f"faces must be integer (faces, 3), got {faces.dtype} {tuple(faces.shape)}"
            )
        if vertices.is_meta or faces.is_meta:
            raise ValueError("vertices and faces must have values, got meta")
        if vertices.device != faces.device:
            raise ValueError(
                f"faces must be on {vertices.device} as the vertices are, got {faces.device}"
            )
        if not bool(torch.isfinite(vertices).all()):
            raise ValueError("vertices must be finite, got NaN or infinity")
        if len(faces) and (int(faces.min()) < 0 or int(faces.max()) >= len(vertices)):
            raise ValueError(
                f"faces must index {len(vertices)} vertices, "
                f"got indices from {int(faces.min())} to {int(faces.max())}"
            )
        # Copies: what was checked here must not change when the caller writes to their tensors.
        object.__setattr__(self, "vertices", vertices.to(torch.float64, copy=True))
        object.__setattr__(self, "faces", faces.to(torch.int64, copy=True))
        if self.pairs is not None:
            object.__setattr__(self, "pairs", _checked_pairs(self.pairs, self.faces))
        inputs = {name: as_tensor(x, name) for name, x in self.inputs.items()}
        for name, x in inputs.items():
            if x.shape != (len(faces),) or not bool(x.isfinite().all()):
                raise ValueError(
                    f"input {name!r} must be finite ({len(faces)},), got {tuple(x.shape)}"
                )
            inputs[name] = x.to(self.vertices, copy=True)
        object.__setattr__(self, "inputs", inputs)

    @classmethod
    def from_trimesh(cls, mesh: Trimesh | Scene) -> TriangleMesh:
        """Copy a trimesh mesh, or all meshes of a scene with their transforms.

        Nothing is repaired; see ``merge_vertices`` and ``fix_normals`` of trimesh. Raises
        ``ValueError`` for a scene without meshes.

        Examples
        --------
        >>> import trimesh
        >>> TriangleMesh.from_trimesh(trimesh.creation.box())
        TriangleMesh(vertices=8, faces=12)
        """
        from trimesh import Scene, Trimesh  # which a program without such meshes does not import

        if not isinstance(mesh, (Scene, Trimesh)):
            raise TypeError(
                f"mesh must be a trimesh.Trimesh or a trimesh.Scene, got {kind_of(mesh)}"
            )
        given = mesh.dump() if isinstance(mesh, Scene) else [mesh]
        parts = [part for part in given if isinstance(part, Trimesh)]
        if not parts:
            raise ValueError(f"mesh must be a scene with a mesh, got one of {len(given)} others")
        # Numbers of vertices go on from one part to the next.
        first = np.cumsum([0, *(len(part.vertices) for part in parts)])
        faces = [part.faces + start for part, start in zip(parts, first[:-1], strict=True)]
        vertices = np.concatenate([part.vertices for part in parts]).astype(np.float64)
        return cls(as_tensor(vertices, "vertices"), as_tensor(np.concatenate(faces), "faces"))

    def __repr__(self) -> str:
        return f"TriangleMesh(vertices={self.num_vertices}, faces={self.num_faces})"

    @property
    def num_vertices(self) -> int:
        """Number of vertices, used or not."""
        return len(self.vertices)

    @property
    def num_faces(self) -> int:
        """Number of triangles."""
        return len(self.faces)

    def act(self, g: TensorLike) -> TriangleMesh:
        """Apply a linear map (3, 3) or a homogeneous matrix (4, 4) to the positions.

        The last column of a homogeneous matrix is the translation, its last row (0, 0, 0, 1).
        Reflections do not change the winding. Vectors among the inputs are rotated and reflected,
        but not scaled.

        Examples
        --------
        >>> mesh = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
        >>> mesh.act(torch.diag(torch.tensor([1.0, 1.0, -1.0]))).vertices[2].tolist()
        [0.0, 0.0, -1.0]
        """
        matrix = as_tensor(g, "g")
        if matrix.shape not in ((3, 3), (4, 4)):
            raise ValueError(f"g must be (3, 3) or homogeneous (4, 4), got {tuple(matrix.shape)}")
        if matrix.is_complex() or matrix.is_meta:
            raise ValueError(f"g must hold real numbers, got {matrix.dtype} on {matrix.device}")
        exact = torch.finfo(matrix.dtype).eps if matrix.is_floating_point() else 0.0
        matrix = matrix.to(self.vertices)
        if len(matrix) == 4:
            # A product or an inverse of such matrices has this row but for rounding.
            rounding = 64 * exact * max(1.0, matrix.abs().max().item())
            last = matrix[3] - matrix.new_tensor([0.0, 0.0, 0.0, 1.0])
            if not bool((last.abs() <= rounding).all()):
                raise ValueError(
                    f"g must have the last row (0, 0, 0, 1), got {tuple(matrix[3].tolist())}: the "
                    "translation stands in the last column; transpose a matrix that acts on rows"
                )
        # Rows are positions: x' = A x + t becomes X' = X A^T + t.
        moved = self.vertices @ matrix[:3, :3].mT
        if len(matrix) == 4:
            moved = moved + matrix[:3, 3]
        inputs = dict(self.inputs)
        for names in vectors_of(inputs):
            left, _, right = torch.linalg.svd(matrix[:3, :3])
            turned = torch.stack([inputs[name] for name in names], dim=1) @ (left @ right).mT
            inputs |= zip(names, turned.unbind(1), strict=True)
        return TriangleMesh(moved, self.faces, self.pairs, inputs)


def vectors_of(names: Collection[str]) -> list[tuple[str, str, str]]:
    """Return the triples of names that differ in a final x, y and z."""
    found = [
        (f"{name[:-1]}x", f"{name[:-1]}y", f"{name[:-1]}z") for name in names if name[-1:] == "x"
    ]
    return [triple for triple in found if all(name in names for name in triple)]


def check_vectors(
    names: Collection[str],  # of inputs that are read
    every: Collection[str],  # that could be
) -> None:
    """Raise for a component of a vector without the others: it depends on the pose."""
    for name in names:
        triple = [name[:-1] + axis for axis in "xyz"]
        known = sum(part in names or part in every for part in triple)
        if name in triple and known > 1 and not all(part in names for part in triple):
            raise MeshError(
                f"input {name!r} is a component, which depends on the pose; read the vector "
                f"{', '.join(triple)}"
            )


_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def _checked_pairs(given: TensorLike, faces: Tensor) -> Tensor:
    """Validate and copy pairs of half-edges between the same vertices."""
    pairs = as_tensor(given, "pairs")
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype not in _INTEGERS:
        raise ValueError(
            f"pairs must be integer (pairs, 2), got {pairs.dtype} {tuple(pairs.shape)}"
        )
    if pairs.device != faces.device:
        raise ValueError(f"pairs must be on {faces.device} as the faces are, got {pairs.device}")
    pairs = pairs.to(torch.int64, copy=True)
    if len(pairs) and (int(pairs.min()) < 0 or int(pairs.max()) >= faces.numel()):
        raise ValueError(
            f"pairs must index {faces.numel()} half-edges, "
            f"got indices from {int(pairs.min())} to {int(pairs.max())}"
        )
    ends = torch.stack((faces, faces.roll(-1, dims=1)), dim=-1).reshape(-1, 2).sort(dim=1).values
    one, other = pairs.unbind(1)
    apart = (ends[one] != ends[other]).any(dim=1) | (one // 3 == other // 3)
    if bool(apart.any()):
        row = int(torch.nonzero(apart)[0])
        raise ValueError(
            "pairs must be half-edges of two faces between the same vertices, got "
            f"{pairs[row].tolist()} in row {row}"
        )
    return pairs


def check_mesh(mesh: object) -> None:
    """Raise TypeError unless the argument is a :class:`TriangleMesh`."""
    if not isinstance(mesh, TriangleMesh):
        known = any(kind.__module__.startswith("trimesh.") for kind in type(mesh).__mro__)
        remedy = ": use TriangleMesh.from_trimesh" if known else ""
        raise TypeError(f"mesh must be a TriangleMesh, got {kind_of(mesh)}{remedy}")
