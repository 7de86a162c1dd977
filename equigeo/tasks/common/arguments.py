"""Command-line options as data that a task declares."""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from equigeo._core.brief import shown
from equigeo._core.text import printable
from equigeo.tasks.common.measures import CopyResult

_MOST = 2**64 - 1


@dataclass(frozen=True)
class Argument:
    """Command-line option; its value is None by default."""

    flag: str
    help: str
    type: Callable[[str], Any] = str  # parser of the value: `positive`, `natural`, `number`, ...
    choices: tuple[str, ...] | None = None
    metavar: str | None = None
    constant: object = None  # value of a flag without argument
    dest: str | None = None  # default: the name of the flag
    unit: str = ""  # unit of a number, shown in the help

    @property
    def name(self) -> str:
        """Name in the parsed options."""
        return self.dest or self.flag.lstrip("-").replace("-", "_")

    @property
    def text(self) -> str:
        """Help text with the unit before the closing brackets."""
        if self.unit in self.help:
            return self.help
        head, bracket, rest = self.help.partition(" (")
        return f"{head} ({self.unit}{f'; {rest}' if bracket else ')'}"

    def add_to(self, group: Any) -> None:
        """Add the option to a parser or group."""
        options: dict[str, Any] = {
            "type": self.type,
            "choices": self.choices,
            "metavar": self.metavar,
        }
        if self.constant is not None:
            options = {"action": "store_const", "const": self.constant}
        group.add_argument(self.flag, dest=self.name, help=self.text, **options)


def add_arguments(group: Any, arguments: Iterable[Argument]) -> None:
    """Add options to a parser or group; options with the same name are mutually exclusive."""
    arguments = list(arguments)
    number = Counter(argument.name for argument in arguments)
    shared: dict[str, Any] = defaultdict(group.add_mutually_exclusive_group)
    for argument in arguments:
        argument.add_to(group if number[argument.name] == 1 else shared[argument.name])


def positive(text: str) -> int:
    """Parse an integer from 1 to 2^64 - 1."""
    return _integer(text, 1, "a positive integer")


def natural(text: str) -> int:
    """Parse an integer from 0 to 2^64 - 1."""
    return _integer(text, 0, "an integer of at least 0")


def number(text: str) -> float:
    """Parse a number; the configuration validates its range."""
    try:
        if not text.isascii() or "_" in text or text != text.strip():  # float() would read these
            raise ValueError(text)
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, got {shown(text)}") from None


def numbers(text: str) -> tuple[float, ...]:
    """Parse comma-separated numbers; an empty text has none."""
    return tuple(number(part) for part in text.split(",")) if text else ()


def words(text: str) -> tuple[str, ...]:
    """Parse comma-separated words; an empty text has none."""
    return tuple(text.split(",")) if text else ()


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


def class_table(
    classes: Sequence[str],  # sanitised here
    confusion: Sequence[Sequence[int]],  # (true class, predicted class)
    samples: str,  # plural noun
) -> str:
    """Format the correct predictions per class as a table."""
    names = [printable(name) for name in classes]
    width, column = max(5, *map(len, names)), max(6, len(samples))
    lines = [f"{'class':<{width}}  correct  {samples:>{column}}  accuracy"]
    for i, (name, row) in enumerate(zip(names, confusion, strict=True)):
        if sum(row):
            share = f"{row[i] / sum(row):8.1%}"
            lines.append(f"{name:<{width}}  {row[i]:7d}  {sum(row):{column}d}  {share}")
    correct, total = sum(row[i] for i, row in enumerate(confusion)), sum(map(sum, confusion))
    share = f"{correct / total:8.2%}"
    lines.append(f"{'all':<{width}}  {correct:7d}  {total:{column}d}  {share}")
    return "\n".join(lines)


def copies_table(
    copies: Sequence[CopyResult],
    logit_changes: Mapping[str, float] | None = None,  # by kind of copy: one more column
) -> str:
    """Format the effect of transformations as a table."""
    last = "" if logit_changes is None else "  equivariance error"
    lines = [f"{'copies':<14}  accuracy  changed  largest change of a probability{last}"]
    for copy in copies:
        line = f"{copy.kind:<14}  {copy.accuracy:8.2%}  {len(copy.changed):7d}  "
        if logit_changes is None:
            lines.append(f"{line}{copy.largest_difference:.1e}")
        else:
            change = f"{logit_changes[copy.kind]:.1e}"
            lines.append(f"{line}{f'{copy.largest_difference:.1e}':<31}  {change}")
    return "\n".join(lines)
