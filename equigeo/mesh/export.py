"""Mesh networks as programs for meshes of any size."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim, ExportedProgram, ShapesCollection
from torch.utils import _pytree

from equigeo._core.checks import kind_of
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.mesh.nn.mesh_model import MeshModel
from equigeo.mesh.subdivide import subdivide
from equigeo.ops.runtime.package import write_package


def export_program(model: MeshModel) -> ExportedProgram:
    """Export a network for graphs of one mesh with any number of faces, edges and vertices.

    Some face has at least two neighbors, because PyTorch specializes axes of length 0 and 1.
    The input of the program is ``model.graph(mesh)``, and the output is that of the model. Graphs
    of several meshes, and those with other features or another dtype, raise ``ValueError`` or
    ``RuntimeError``. A process that loads the program imports ``equigeo.mesh``.

    Pooling raises ``NotImplementedError``, as the merged adjacencies depend on values.

    Parameters
    ----------
    model : PrimalDualClassifier or PrimalDualSegmenter
        Without pooling, in eval mode; its weights are copied.

    Examples
    --------
    >>> from equigeo.mesh import PrimalDualClassifier
    >>> model = PrimalDualClassifier.preset("default", 3, keep=(None,) * 4).eval()
    >>> program = export_program(model)  # doctest: +SKIP
    >>> graph = model.graph(TriangleMesh(torch.eye(4, 3), torch.tensor(_TETRAHEDRON)))
    >>> program.module()(graph).shape  # doctest: +SKIP
    torch.Size([1, 3])
    """
    if not isinstance(model, MeshModel):
        raise TypeError(f"model must be a mesh network, got {kind_of(model)}")
    if model.training:
        raise ValueError("the model must be in eval mode, got training mode: call model.eval()")
    model = copy.deepcopy(model).requires_grad_(False)
    small, large = (_example(model, n) for n in (2, 3))
    sizes: Any = ShapesCollection()
    for x, y in zip(*map(_pytree.tree_leaves, (small, large)), strict=True):
        sizes[x] = {k: Dim.DYNAMIC for k, size in enumerate(x.shape) if y.shape[k] != size}
    return torch.export.export(model, (small,), dynamic_shapes=sizes)


def compile_package(model: MeshModel, path: str | os.PathLike[str]) -> Path:
    """Compile :func:`export_program` into a package, by AOTInductor.

    The package is for the device of the network and, on the CPU, for processors like this one. The
    process that loads it imports ``equigeo.mesh``, or, in C++, loads the library of
    ``equigeo.kernels_info()`` and passes the tensors of ``torch.utils._pytree.tree_leaves(graph)``.
    Without compiled kernels, ``RuntimeError`` is raised. Its metadata contain the ``config`` of the
    network as JSON and the ``dtype`` of the weights.

    Parameters
    ----------
    model : PrimalDualClassifier or PrimalDualSegmenter
        Without pooling, in eval mode.
    path : str or path
        Ends in ``.pt2``, in a folder that exists.

    Examples
    --------
    >>> from equigeo.mesh import PrimalDualClassifier
    >>> model = PrimalDualClassifier.preset("default", 3, keep=(None,) * 4).eval()
    >>> compile_package(model, "shapes.pt2")  # doctest: +SKIP
    PosixPath('shapes.pt2')
    """
    if not isinstance(model, MeshModel):
        raise TypeError(f"model must be a mesh network, got {kind_of(model)}")
    mean = model.standardize_primal.mean
    metadata = {
        "config": json.dumps(model.config.to_dict()),
        "dtype": str(mean.dtype).removeprefix("torch."),
    }
    return write_package(path, lambda: export_program(model), mean.device, metadata)


_TETRAHEDRON = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]


def _example(model: MeshModel, subdivisions: int) -> PrimalDualGraph:
    """Return a graph of an open surface, whose numbers of elements have no simple ratios."""
    mesh = TriangleMesh(torch.eye(4, 3), torch.tensor(_TETRAHEDRON))
    for _ in range(subdivisions):
        mesh = subdivide(mesh)
    faces = mesh.faces[subdivisions + 3 :]
    inputs = {name: torch.ones(len(faces)) for name in model.config.inputs}
    mesh = TriangleMesh(mesh.vertices, faces, inputs=inputs)
    return model.graph(mesh).to(model.standardize_primal.mean.device)
