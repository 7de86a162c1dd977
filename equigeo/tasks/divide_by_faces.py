"""Batches of meshes with a limited number of faces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

MOST_FACES: Final = 2**18  # that are evaluated at once, which takes about half a GiB
TRAINED_FACES: Final = 2**17  # that are trained on at once: about a GiB


def chunks(
    sizes: Iterable[int],
    most: int,  # total size; a larger item is alone
    at_most: int | None = None,  # number of items
    at_least: int = 1,  # number of items before the total size counts
) -> Iterator[list[int]]:
    """Iterate over positions in chunks of limited total size."""
    chosen: list[int] = []
    total = 0
    for i, size in enumerate(sizes):
        if len(chosen) >= at_least and (len(chosen) == at_most or total + size > most):
            yield chosen
            chosen, total = [], 0
        chosen.append(i)
        total += size
    if chosen:
        yield chosen


def batches_by_faces(
    faces: Iterable[int],  # faces of every mesh
    batch_size: int,
    most: int | None = None,  # default: `MOST_FACES`
) -> Iterator[list[int]]:
    """Iterate over positions in batches of limited size and face count; larger meshes are alone."""
    return chunks(faces, MOST_FACES if most is None else most, batch_size)


def divide_by_faces(
    indices: Sequence[int],
    faces: Sequence[int],
    most: int | None = None,  # default: `TRAINED_FACES`
) -> list[list[int]]:
    """Divide a training batch into parts of at most ``most`` faces and at least two meshes."""
    # Batch norms after the read-out need at least two meshes.
    parts = list(chunks(faces, TRAINED_FACES if most is None else most, at_least=2))
    if len(parts) > 1 and len(parts[-1]) < 2:
        last = parts.pop()
        parts[-1] += last
    return [[indices[k] for k in part] for part in parts]
