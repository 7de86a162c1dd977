"""Texts for a terminal, of values that may hold anything; needs no kernels."""

from __future__ import annotations

_LONGEST = 1000  # characters of a message


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


def message(text: object, *, lists: bool = False) -> str:
    r"""Show an error on one line of a terminal, its middle left out where it is long.

    Parameters
    ----------
    text : object
        Of the error.
    lists : bool
        Whether lines that are indented, a list, stay lines.

    Examples
    --------
    >>> print(message("a\nb"))
    a\nb
    >>> print(message("two:\n  a\n  b", lists=True))
    two:
      a
      b
    """
    short = shorten(str(text), _LONGEST)
    lines = short.split("\n  ") if lists else [short]
    return shorten("\n  ".join(map(printable, lines)), _LONGEST)


def shorten(text: str, most: int) -> str:
    """Leave out the middle of a text that is longer than ``most`` characters.

    Examples
    --------
    >>> shorten("abcdefghij", 7)
    'ab...ij'
    """
    if len(text) <= most:
        return text
    kept = max(most - 3, 0)
    return f"{text[: (kept + 1) // 2]}...{text[len(text) - kept // 2 :]}"
