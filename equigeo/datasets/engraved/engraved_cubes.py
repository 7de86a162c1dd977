"""Built-in data set of engraved cubes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import torch

from equigeo.datasets.engraved.draw_icon import draw_icon, icon_generator
from equigeo.datasets.engraved.engrave_cube import engrave_cube
from equigeo.datasets.engraved.icon_template import IconTemplate
from equigeo.datasets.engraved.icon_templates import ICON_TEMPLATES
from equigeo.datasets.mesh_dataset import MeshDataset
from equigeo.datasets.shapes.cached_meshes import (
    Arrays,
    cached_arrays,
    check_arguments,
    join_meshes,
    split_meshes,
)
from equigeo.mesh import TriangleMesh

TRAIN_SHARE: Final = 0.85  # of the icons of a class, the first ones: 17 of 20

_VERSION = 1  # raise with every change that alters a generated mesh


def engraved_cubes(
    seed: int = 0,
    *,
    classes: int = len(ICON_TEMPLATES),
    icons: int = 20,
    placements: int = 10,
    faces: int = 500,
    cache: Path | None = None,
) -> MeshDataset:
    """Generate cubes with an icon engraved in one side, or read them from the cache.

    A class is a family of icons: letters, tools, figures. Icons vary in size, stretch and smooth
    deformation; a placement rotates, scales and moves an icon on a random side of the cube, and
    simplifies the cube with its own connectivity. Every mesh is closed, connected, manifold,
    oriented outward and of genus 0. As in the engraved cubes of MeshCNN, no icon is in both the
    training and the test part.

    Parameters
    ----------
    seed : int
        Not negative. A mesh does not depend on the numbers of classes, icons and placements.
    classes : int
        Number of classes, from 2 to 22: the first in alphabetical order.
    icons : int
        Icons per class, at least 2; all placements of the first 85 % are marked as training meshes.
    placements : int
        Cubes per icon, positive.
    faces, cache
        See `articulated_shapes`.

    Returns
    -------
    MeshDataset
        Meshes by class and icon, classes in alphabetical order; the placements of an icon are a
        group. By default there are 3,740 training and 660 test meshes.

    References
    ----------
    Hanocka et al., "MeshCNN: a network with an edge", 2019 (the original collection).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cubes = engraved_cubes(classes=3, icons=2, placements=2, cache=Path(folder))
    >>> cubes, cubes.names[2]
    (MeshDataset(12 meshes of 3 classes, 6 to train), 'arrowhead/1/0')
    """
    check_arguments(seed, faces, icons=icons)
    if not 2 <= classes <= len(ICON_TEMPLATES):
        raise ValueError(f"classes must be from 2 to {len(ICON_TEMPLATES)}, got {classes}")
    if placements < 1:
        raise ValueError(f"placements must be positive, got {placements}")
    meshes = cached_arrays(
        f"engraved_cubes-v{_VERSION}-seed{seed}-{classes}x{icons}x{placements}x{faces}.npz",
        cache,
        partial(_generate, seed, ICON_TEMPLATES[:classes], icons, placements, faces),
        partial(split_meshes, number=classes * icons * placements, faces=faces),
    )
    return _label(meshes, ICON_TEMPLATES[:classes], icons, placements)


def _generate(
    seed: int, templates: tuple[IconTemplate, ...], icons: int, placements: int, faces: int
) -> Arrays:
    """Generate all cubes and join them in the stored layout."""
    return join_meshes(
        [
            engrave_cube(picture, faces, icon_generator(template, seed, icon, 1 + placement))
            for template in templates
            for icon in range(icons)
            for picture in [draw_icon(template, seed, icon)]
            for placement in range(placements)
        ]
    )


def _label(
    meshes: list[TriangleMesh], templates: tuple[IconTemplate, ...], icons: int, placements: int
) -> MeshDataset:
    groups = torch.arange(len(templates) * icons).repeat_interleave(placements)
    return MeshDataset(
        meshes=tuple(meshes),
        labels=groups // icons,
        classes=tuple(template.name for template in templates),
        names=tuple(
            f"{template.name}/{icon}/{placement}"
            for template in templates
            for icon in range(icons)
            for placement in range(placements)
        ),
        in_train=groups % icons < int(TRAIN_SHARE * icons),
        groups=groups,
    )
