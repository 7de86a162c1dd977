"""Mutants that nothing can notice, with the reason why the line stays as it is."""

from __future__ import annotations

# By the name of the mutant.
REDUNDANT: dict[str, str] = {}
