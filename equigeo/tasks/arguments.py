"""Options of the command line, as data that a task declares."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from equigeo.nn.brief import shown

_MOST = 2**64 - 1


@dataclass(frozen=True)
class Argument:
    """One option; what the user does not give is None.

    Parameters
    ----------
    flag : str
        What the user types, such as ``"--split-index"``.
    help : str
        One line.
    type : callable
        Reads the value; for numbers :func:`positive` and :func:`natural`.
    choices : tuple of str, optional
        Values that are allowed, by default all.
    metavar : str, optional
        What the value is called in the help.
    constant : object, optional
        What the option means; it then takes no value.
    dest : str, optional
        Name in the parsed options, by default that of the flag.
    unit : str
        What a number counts or is measured in; empty for what has no unit, such as a seed. The
        help says it where its sentence does not.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> Argument("--split-index", "number of the draw", natural).add_to(parser)
    >>> parser.parse_args(["--split-index", "2"])
    Namespace(split_index=2)
    """

    flag: str
    help: str
    type: Callable[[str], Any] = str
    choices: tuple[str, ...] | None = None
    metavar: str | None = None
    constant: object = None
    dest: str | None = None
    unit: str = ""

    @property
    def name(self) -> str:
        """Name in the parsed options."""
        return self.dest or self.flag.lstrip("-").replace("-", "_")

    @property
    def text(self) -> str:
        """Help with the unit, in front of what the brackets at its end say."""
        if self.unit in self.help:
            return self.help
        head, bracket, rest = self.help.partition(" (")
        return f"{head} ({self.unit}{f'; {rest}' if bracket else ')'}"

    def add_to(self, group: Any) -> None:
        """Add the option to a parser or to a group of one."""
        if self.constant is not None:
            group.add_argument(
                self.flag, dest=self.name, action="store_const", const=self.constant, help=self.text
            )
        else:
            group.add_argument(
                self.flag,
                dest=self.name,
                type=self.type,
                choices=self.choices,
                metavar=self.metavar,
                help=self.text,
            )


def add_arguments(group: Any, arguments: Iterable[Argument]) -> None:
    """Add options to a parser or to a group of one; those of one name exclude each other.

    Parameters
    ----------
    group : argparse.ArgumentParser or group
        Where to.
    arguments : iterable of Argument
        In the order of the help.

    Examples
    --------
    >>> parser = argparse.ArgumentParser(exit_on_error=False)
    >>> add_arguments(
    ...     parser, [Argument("--model", ""), Argument("--plain", "", constant="", dest="model")]
    ... )
    >>> parser.parse_args(["--model", "mds", "--plain"])
    Traceback (most recent call last):
        ...
    argparse.ArgumentError: argument --plain: not allowed with argument --model
    """
    arguments = list(arguments)
    number = Counter(argument.name for argument in arguments)
    shared: dict[str, Any] = {}
    for argument in arguments:
        if number[argument.name] == 1:
            argument.add_to(group)
            continue
        if argument.name not in shared:
            shared[argument.name] = group.add_mutually_exclusive_group()
        argument.add_to(shared[argument.name])


def positive(text: str) -> int:
    """Read an integer from 1 to 2^64 - 1.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is none.
    """
    return _integer(text, 1, "a positive integer")


def natural(text: str) -> int:
    """Read an integer from 0 to 2^64 - 1.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is none.
    """
    return _integer(text, 0, "an integer of at least 0")


def number(text: str) -> float:
    """Read a number; the configuration says which ones are in range.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is none.
    """
    try:
        if not text.isascii() or "_" in text or text != text.strip():  # float() would read these
            raise ValueError(text)
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, got {shown(text)}") from None


def numbers(text: str) -> tuple[float, ...]:
    """Read numbers with commas between them, or none of an empty text.

    Raises
    ------
    argparse.ArgumentTypeError
        If one is none.

    Examples
    --------
    >>> numbers("0.5,2")
    (0.5, 2.0)
    """
    return tuple(number(part) for part in text.split(",")) if text else ()


def _integer(text: str, least: int, expected: str, most: int = _MOST) -> int:
    # int() would also read " 1", "1_000" and digits of other scripts, and digits without end
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(_MOST))
    if not is_number or int(text) < least:
        raise argparse.ArgumentTypeError(f"expected {expected}, got {shown(text)}")
    if int(text) > most:
        raise argparse.ArgumentTypeError(f"expected {expected}, at most {most}, got {shown(text)}")
    return int(text)


# More threads than that no machine has; each takes memory whether it has work or not.
threads: Final = partial(_integer, least=1, expected="a positive integer", most=1024)
