"""Rules that are agreed and not yet reached."""

from __future__ import annotations

import pytest

PENDING = {
    "classes",
    "duplicates",
    "mirrored tests",
    "positional slices",
    "small modules",
    "words",
}


def enforce(rule: str, found: list[str]) -> None:
    """Fail with the violations of a rule; while it is pending, only say how many there are."""
    if rule in PENDING and found:
        pytest.skip(f"{rule}: {len(found)} left")
    assert not found, "\n".join(found)
