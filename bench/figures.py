"""Whether the figures that documents state are those of the records.

A claim is a piece of a page with ``{}`` in place of each number, and the values that these numbers
state, taken from files under ``bench/results/``; :mod:`bench.claims` lists them all. A number is
right if the value rounds to it, at as many decimals as it is written with. Every number with a
unit has to be part of a claim, or of an exception that says why it needs none; in README and on the
page of figures every number of a table too.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
RESULTS = REPOSITORY / "bench" / "results"
NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?"
WITH_TABLES = ("README.md", "docs/benchmarks.md")
UNITS = (
    r"%|percent|us|ms|s|min|minutes|seconds|microseconds|hours|GiB|MiB|GB/s|meV|meV/A|GFLOP"
    r"|times|points above"
)
# One number or several of one unit: "2.8 to 4.7 s", "95.8, 94.7, 95.8 %".
SEVERAL = rf"{NUMBER}(?:(?:, | to | and | / | or ){NUMBER})*"
WITH_UNIT = re.compile(rf"(?<![\w.])({SEVERAL})(?:x| ?(?:{UNITS}))(?!\w)")
SINGLE = re.compile(rf"(?<![\w.`-]){NUMBER}(?=x?(?![\w`]))")
TABLE_ROW = re.compile(r"@ \|(?P<label>[^|@]*\|)(?P<cells>(?:[^|@]*\|)*)(?P<is_heading> @ \|-)?")
# Code, links, headings; which seed, and which degrees, is no figure either.
NOT_PROSE = re.compile(
    r"```.*?```|`[^`]*`|\]\([^)]*\)|<!--.*?-->|^#[^\n]*"
    r"|(?:seeds?|draws?) [0-4](?: to [0-4])?|\(\d, \d\)",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Claim:
    """A piece of a page, and the values of its numbers.

    Parameters
    ----------
    page : str
        Path from the repository.
    text : str
        What the page says, with ``{}`` for each number; ``*`` of bold words and line breaks do not
        matter.
    values : callable
        Gives the values, one for each number. A pair is a value and the unit that it is rounded to,
        ``(3778, 100)`` for "about 3,800".
    """

    page: str
    text: str
    values: Callable[[], Sequence[float | tuple[float, float]]]


@functools.cache
def record(name: str) -> Any:
    """A file under ``bench/results/``."""
    return json.loads((RESULTS / f"{name}.json").read_text())


@functools.cache
def prose(page: str) -> str:
    """A page in one line, without bold; what is no prose is blank, and as long as it was."""
    text = (REPOSITORY / page).read_text()
    blank = NOT_PROSE.sub(lambda found: re.sub(r"[^\s|*]", "_", found[0]), text)
    return joined(blank)


def joined(text: str) -> str:
    """Without line breaks and bold; rows of tables keep their line."""
    text = re.sub(r"\n(?=\|)", " @ ", text.replace("**", ""))  # a row, wherever it stands
    return re.sub(r"\s+", " ", text)


@functools.cache
def plain(page: str) -> str:
    """A page in one line, without bold, with all of its words."""
    return joined((REPOSITORY / page).read_text())


def problems(claim: Claim) -> Iterator[str]:
    """Yield how a page differs from the records."""
    pattern = rf"({NUMBER})".join(map(re.escape, joined(claim.text).split("{}")))
    found = list(re.finditer(pattern, plain(claim.page)))
    if len(found) != 1:
        yield f"{claim.page}: {claim.text!r} stands there {len(found)} times, expected once"
        return
    said, values = found[0].groups(), list(claim.values())
    if len(said) != len(values):
        yield f"{claim.page}: {claim.text!r} has {len(said)} numbers, got {len(values)} values"
        return
    for words, value in zip(said, values, strict=True):
        exact, unit = value if isinstance(value, tuple) else (value, written_unit(words))
        # A value that lies on the middle between two numbers may be rounded to either.
        if not abs(float(words.replace(",", "")) - exact) <= unit / 2 * (1 + 1e-9):
            yield f"{claim.page}: {found[0][0]!r} says {words}, the records say {exact:.6g}"


def written_unit(words: str) -> float:
    """Size of the last digit that a number is written with."""
    mantissa, _, exponent = words.replace(",", "").partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals)


def unclaimed(page: str, claims: Sequence[Claim], exceptions: Sequence[str] = ()) -> list[str]:
    """Figures of a page that no claim and no exception covers, with the words around them."""
    text = plain(page)
    covered: set[int] = set()
    for claim in claims:
        if claim.page == page:
            pattern = rf"({NUMBER})".join(map(re.escape, joined(claim.text).split("{}")))
            for found in re.finditer(pattern, text):
                for group in range(1, 1 + len(found.groups())):
                    covered.update(range(*found.span(group)))
    for words in exceptions:
        for found in re.finditer(re.escape(joined(words)), text):
            covered.update(range(*found.span()))
    left = [span for span in figures(page) if not covered.issuperset(range(*span))]
    return [f"{text[max(0, a - 50) : a]}[{text[a:b]}]{text[b : b + 25]}" for a, b in left]


def figures(page: str) -> list[tuple[int, int]]:
    """Where the figures of a page stand: numbers with units, and numbers of tables of figures."""
    text = prose(page)
    wholes = [found.span(1) for found in WITH_UNIT.finditer(text)]
    # The first cell says what a row is about.
    rows = TABLE_ROW.finditer(text) if page in WITH_TABLES else ()
    wholes += [row.span("cells") for row in rows if not row["is_heading"]]
    return sorted({found.span() for a, b in wholes for found in SINGLE.finditer(text, a, b)})


def pages() -> list[str]:
    """README and every page of the documents, without those that building the site makes."""
    written = (x for x in (REPOSITORY / "docs").rglob("*.md") if "generated" not in x.parts)
    found = [REPOSITORY / "README.md", *sorted(written)]
    return [path.relative_to(REPOSITORY).as_posix() for path in found]
