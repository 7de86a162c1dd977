"""Lightning, or the remedy where it is not installed."""

from __future__ import annotations

try:
    import lightning as L
except ImportError as _error:
    raise ImportError('training needs Lightning: pip install "equigeo[train]"') from _error

__all__ = ["L"]
