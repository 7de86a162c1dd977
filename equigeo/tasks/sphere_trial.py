"""A shape on which any network on meshes is timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import trimesh

from equigeo.mesh import TriangleMesh


def sphere_trial(model: Any) -> tuple[str, Callable[[], Any]]:
    """Give a bumpy sphere in words, and one pass of a network on its graph.

    Parameters
    ----------
    model : PrimalDualClassifier or PrimalDualSegmenter
        What takes the graph.

    Examples
    --------
    >>> from equigeo.mesh import PrimalDualClassifier
    >>> on, call = sphere_trial(PrimalDualClassifier.preset("default", num_classes=3).eval())
    >>> on, call().shape
    ('a mesh of 1,280 faces', torch.Size([1, 3]))
    """
    sphere = trimesh.creation.icosphere(3)
    bumps = 0.01 * np.random.default_rng(0).standard_normal(sphere.vertices.shape)
    graph = model.graph(TriangleMesh(sphere.vertices + bumps, sphere.faces))
    return f"a mesh of {len(sphere.faces):,} faces", lambda: model(graph)
