"""The model of every preset of the image classifier."""

from __future__ import annotations

from typing import Any, Final

from equigeo.training.lazy_class import lazy_class

IMAGE_MODELS: Final[dict[str, tuple[str, str]]] = {
    "default": ("equigeo.affine", "AffineResNet"),
    "paper": ("equigeo.affine", "AffineResNet"),
    "cnn": ("equigeo.training.plain_cnn", "PlainCNN"),
}


def image_model(preset: str) -> Any:
    """Give the class of the model of a preset.

    It has ``preset(name, num_classes)``, ``from_config(config)`` and a ``config`` of JSON types
    with ``num_classes``, and takes (images, 1, 40, 40) in [0, 1].

    Parameters
    ----------
    preset : str
        A key of ``IMAGE_MODELS``.

    Raises
    ------
    ValueError
        If this version has no such model.

    Examples
    --------
    >>> image_model("cnn").__name__
    'PlainCNN'
    """
    return lazy_class(*IMAGE_MODELS[preset])
