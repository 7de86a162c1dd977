"""Classes that are imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def lazy_class(module: str, name: str) -> Any:
    """Import a class of this library.

    Parameters
    ----------
    module, name : str
        Where it is and what it is called.

    Raises
    ------
    ValueError
        If this version has no such class.

    Examples
    --------
    >>> lazy_class("equigeo.training", "Recipe").__name__
    'Recipe'
    """
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"this version has no model {module}.{name}") from error
