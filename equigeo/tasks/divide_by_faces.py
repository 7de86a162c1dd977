"""Batches of meshes, bounded by their faces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

MOST_FACES: Final = 2**18  # that are evaluated at once, which takes about half a GiB
TRAINED_FACES: Final = 2**17  # that are trained on at once: about a GiB


def batches_by_faces(
    faces: Iterable[int], batch_size: int, most: int | None = None
) -> Iterator[list[int]]:
    """Give positions in order, so many at a time and with so many faces at most.

    Parameters
    ----------
    faces : iterable of int
        Faces of every mesh; one that has more is alone.
    batch_size : int
        Meshes at a time.
    most : int, optional
        Faces at a time, by default ``MOST_FACES``.

    Examples
    --------
    >>> list(batches_by_faces([3, 3, 3, 9, 1], batch_size=2, most=6))
    [[0, 1], [2], [3], [4]]
    """
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
    indices: Sequence[int], faces: Sequence[int], most: int | None = None
) -> list[list[int]]:
    """Divide a batch of training into parts of so many faces, of two meshes at least.

    Two, because batch norms of what is read out of each mesh have nothing to compare one with.
    Which meshes share a part depends on their order and their faces alone.

    Parameters
    ----------
    indices : sequence of int
        The batch.
    faces : sequence of int
        Faces of each of its meshes.
    most : int, optional
        Faces of a part, unless two meshes have more; by default ``TRAINED_FACES``.

    Examples
    --------
    >>> divide_by_faces([7, 8, 9, 5, 6], [3, 3, 3, 9, 1], most=6)
    [[7, 8], [9, 5, 6]]
    """
    most = TRAINED_FACES if most is None else most
    parts: list[list[int]] = []
    chosen: list[int] = []
    count = 0
    for i, number in zip(indices, faces, strict=True):
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
