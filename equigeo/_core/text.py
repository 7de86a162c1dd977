"""Texts for a terminal, of values that may hold anything; needs no kernels."""

from __future__ import annotations

_LONGEST = 1000  # characters of a message


def printable(text: object) -> str:
    """Escape control characters, which could move the cursor or color the terminal."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(text)
    )


def message(
    text: object,
    *,
    lists: bool = False,  # whether indented lines, as of a list, remain lines
) -> str:
    """Format an error on one terminal line, with its middle omitted if it is long."""
    short = shorten(str(text), _LONGEST)
    lines = short.split("\n  ") if lists else [short]
    return shorten("\n  ".join(map(printable, lines)), _LONGEST)


def shorten(text: str, most: int) -> str:
    """Omit the middle of a text that is longer than ``most`` characters."""
    if len(text) <= most:
        return text
    kept = max(most - 3, 0)
    return f"{text[: (kept + 1) // 2]}...{text[len(text) - kept // 2 :]}"
