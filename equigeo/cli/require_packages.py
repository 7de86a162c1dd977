"""Check for packages that a command needs beyond the library's dependencies."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Final

VERSIONS: Final = {"lightning": ">=2.6,<3", "plotly": ">=5.20", "platformdirs": ">=3"}
"""As in pyproject.toml."""


def require_packages(
    needs: Mapping[str, str],  # reason per package
) -> None:
    """Raise if packages are not installed, with the pip command for all missing ones."""
    known = dict.fromkeys([*needs, *VERSIONS])
    missing = [name for name in known if importlib.util.find_spec(name) is None]
    if missing and not needs.keys().isdisjoint(missing):
        ordered = [
            *(n for n in VERSIONS if n in missing),
            *(n for n in missing if n not in VERSIONS),
        ]
        typed = " ".join(f"'{n}{VERSIONS[n]}'" if n in VERSIONS else n for n in ordered)
        said = " and ".join(f"{needs[name]} needs {name}" for name in missing if name in needs)
        others = [name for name in missing if name not in needs]
        more = f" (and other commands want {', '.join(others)})" if others else ""
        raise ImportError(f"{said}{more}: pip install {typed}")
