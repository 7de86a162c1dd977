"""Names from files, made safe for a terminal."""

from __future__ import annotations


def printable(text: object) -> str:
    r"""Show control characters, which could move the cursor or colour the screen, as escapes.

    Examples
    --------
    >>> print(printable("\x1b[31mred"))
    \x1b[31mred
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(text)
    )
