"""Timing input for mesh networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import trimesh

from equigeo.mesh import TriangleMesh


def sphere_trial(model: Any) -> tuple[str, Callable[[], Any]]:
    """Return a description of a bumpy sphere, and a callable that runs the network on its graph."""
    sphere = trimesh.creation.icosphere(3)
    bumps = 0.01 * np.random.default_rng(0).standard_normal(sphere.vertices.shape)
    graph = model.graph(TriangleMesh(sphere.vertices + bumps, sphere.faces))
    return f"a mesh of {len(sphere.faces):,} faces", lambda: model(graph)
