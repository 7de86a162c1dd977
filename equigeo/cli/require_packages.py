"""What a command needs beyond the library's own dependencies, asked for before it does anything."""

from __future__ import annotations

import importlib.util
from typing import Final

VERSIONS: Final = {"lightning": ">=2.6,<3", "plotly": ">=5.20", "platformdirs": ">=3"}
"""As in pyproject.toml."""


def require_packages(purpose: str, name: str) -> None:
    """Refuse to begin where a package is not installed.

    Parameters
    ----------
    purpose : str
        What needs it.
    name : str
        One of :data:`VERSIONS`.

    Raises
    ------
    ImportError
        If it is not installed; with what to type for this one and all others that other commands
        will want.

    Examples
    --------
    >>> require_packages("a report", "plotly")
    """
    missing = [other for other in VERSIONS if importlib.util.find_spec(other) is None]
    if name in missing:
        typed = " ".join(f"'{other}{VERSIONS[other]}'" for other in missing)
        others = [other for other in missing if other != name]
        more = f" (and other commands want {', '.join(others)})" if others else ""
        raise ImportError(f"{purpose} needs {name}{more}: pip install {typed}")
