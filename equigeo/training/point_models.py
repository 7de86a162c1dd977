"""The models that classify point clouds, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

POINT_MODELS: Final[dict[str, tuple[str, str]]] = {
    "affine": ("equigeo.affine", "AffinePointNet"),
    "mds": ("equigeo.mds", "InvariantPointNet"),
}


def point_model(name: str) -> Any:
    """Give the class of a model of point clouds.

    It has ``preset(name, num_classes)``, ``from_config(config)`` and a ``config`` of JSON types
    with ``num_classes``, and takes (clouds, points, 3).

    Parameters
    ----------
    name : str
        A key of ``POINT_MODELS``.

    Raises
    ------
    ValueError
        If the name is unknown, or this version has no such model.
    """
    if name not in POINT_MODELS:
        raise ValueError(f"model must be one of {', '.join(POINT_MODELS)}, got {name!r}")
    module, attribute = POINT_MODELS[name]
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"this version has no model {module}.{attribute}") from error
