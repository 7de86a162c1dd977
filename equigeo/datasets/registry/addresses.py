"""Validation of download addresses."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class Loopback:
    """Switch for plain http on the loopback interface, for tests only."""

    allowed: bool = False  # set by code only; no option or variable changes it


def is_allowed(url: str) -> bool:
    """Return whether an address uses https."""
    parts = urlsplit(url)
    on_loopback = Loopback.allowed and parts.scheme == "http" and parts.hostname in _LOOPBACK
    return parts.scheme == "https" or on_loopback
