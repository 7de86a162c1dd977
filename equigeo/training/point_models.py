"""The models that classify point clouds."""

from __future__ import annotations

from typing import Any, Final

from equigeo.training.lazy_class import lazy_class

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
    return lazy_class(*POINT_MODELS[name])
