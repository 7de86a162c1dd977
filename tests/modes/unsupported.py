"""Cells of the mode matrix that do not pass, each with its reason."""

from __future__ import annotations

UNSUPPORTED: dict[tuple[str, str], str] = {}
"""By row and column; the cell must fail with an error, and not with wrong numbers."""
