"""The faces to drop against a scan in file order."""

from __future__ import annotations

import time

import numpy as np
from hypothesis import given, settings
from numpy.typing import NDArray

from equigeo.mesh.repair.edge_table import EdgeTable
from equigeo.mesh.repair.nonmanifold_faces import nonmanifold_faces
from tests.mesh.repair.triangle_soups import halfedges, soups


@settings(max_examples=200, deadline=None)
@given(soups())
def test_nonmanifold_faces_are_those_of_a_scan_in_file_order(faces: NDArray[np.int64]) -> None:
    taken: set[tuple[int, int]] = set()
    dropped = []
    for face in faces:
        dropped.append(any(halfedge in taken for halfedge in halfedges(face)))
        if not dropped[-1]:
            taken.update(halfedges(face))
    edges = EdgeTable.from_faces(faces)
    assert nonmanifold_faces(edges, edges.forward).tolist() == dropped


def test_a_long_chain_of_conflicts_takes_linear_time() -> None:
    # Each face conflicts with the next one only; the third face at each edge keeps the winding.
    step = np.arange(20_000)
    strip = np.stack([step, step + 1, step + 2], axis=1)
    flaps = np.stack([step + 1, step, step + 30_000], axis=1)
    edges = EdgeTable.from_faces(np.concatenate([strip, flaps]))
    begin = time.perf_counter()
    dropped = nonmanifold_faces(edges, edges.forward)
    assert time.perf_counter() - begin < 5.0
    assert dropped.tolist() == [False, True] * 10_000 + [False] * 20_000
