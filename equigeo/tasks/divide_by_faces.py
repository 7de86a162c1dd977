"""Batches of meshes with a limited number of faces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

MOST_FACES: Final = 2**18  # that are evaluated at once, which takes about half a GiB
TRAINED_FACES: Final = 2**17  # that are trained on at once: about a GiB


def batches_by_faces(
    faces: Iterable[int],  # faces of every mesh
    batch_size: int,
    most: int | None = None,  # default: `MOST_FACES`
) -> Iterator[list[int]]:
    """Iterate over positions in batches of limited size and face count; larger meshes are alone."""
    most = MOST_FACES if most is None else most
    chosen: list[int] = []
    count = 0
    for i, number in enumerate(faces):
        if chosen and (len(chosen) == batch_size or count + number > most):
            yield chosen
            chosen, count = [], 0
        chosen.append(i)
        count += number
    if chosen:
        yield chosen


def divide_by_faces(
    indices: Sequence[int],
    faces: Sequence[int],
    most: int | None = None,  # default: `TRAINED_FACES`
) -> list[list[int]]:
    """Divide a training batch into parts of at most ``most`` faces and at least two meshes."""
    most = TRAINED_FACES if most is None else most
    parts: list[list[int]] = []
    chosen: list[int] = []
    count = 0
    for i, number in zip(indices, faces, strict=True):
        # Batch norms after the read-out need at least two meshes.
        if len(chosen) >= 2 and count + number > most:
            parts.append(chosen)
            chosen, count = [], 0
        chosen.append(i)
        count += number
    if len(chosen) < 2 and parts:
        parts[-1] += chosen
    elif chosen:
        parts.append(chosen)
    return parts
