"""Which addresses data may come from."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class Loopback:
    """Whether plain http is allowed where it never leaves the machine: for tests alone.

    Attributes
    ----------
    allowed : bool
        Only code can set it: no option and no variable does.
    """

    allowed: bool = False


def is_allowed(url: str) -> bool:
    """Tell whether an address is of https.

    Parameters
    ----------
    url : str
        The address.

    Examples
    --------
    >>> is_allowed("https://example.org/a"), is_allowed("ftp://example.org/a")
    (True, False)
    """
    parts = urlsplit(url)
    on_loopback = Loopback.allowed and parts.scheme == "http" and parts.hostname in _LOOPBACK
    return parts.scheme == "https" or on_loopback
