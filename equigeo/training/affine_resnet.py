"""The image model, imported where it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def affine_resnet() -> Any:
    """Give the class :class:`equigeo.affine.AffineResNet`.

    Its room is imported on demand: meshes are trained without it.
    """
    return import_module("equigeo.affine").AffineResNet
