"""Numbers of README and of the documents are those of the records."""

import re

import pytest

from bench.figures import (
    GENERATED,
    NUMBER,
    REPOSITORY,
    TABLE,
    TABLES,
    joined,
    problems,
    row,
    sentences,
    updated,
)

UNITS = (
    r"%|percent|us|ms|s|min|minutes|seconds|microseconds|hours|GiB|MiB|GB/s|meV|meV/A|GFLOP"
    r"|times|points above"
)
SEVERAL = r"\d[\d,.]*(?:(?:, | to | and | / | or )\d[\d,.]*)*"
WITH_UNIT = re.compile(rf"(?<![\w.]){SEVERAL}(?:x| ?(?:{UNITS}))(?!\w)")
NO_PROSE = re.compile(r"```.*?```|<!--.*?-->|^#[^\n]*", re.DOTALL | re.MULTILINE)
NO_TEXT = re.compile(r"`[^`]*`|\]\([^)]*\)")
PAGES = ["README.md", *(str(x.relative_to(REPOSITORY)) for x in REPOSITORY.glob("docs/**/*.md"))]
WITHOUT_RECORD = (
    "freed results of 4 MiB and more",  # a setting
    "2.9 TB/s with a latency of 0.7 us",  # assumed
    "PD-MeshNet reports 99.7 % on split 16 and 99.1 % on split 10",  # Milano et al. 2020
    # Batatia et al. 2022, table 2
    "MACE with 256 channels 2.1 meV/A for ethanol and 6.6 meV/A for aspirin",
    "NequIP 2.8 and 8.2 meV/A",
    "independent run 2.7 and 8.9 meV/A",  # kcheng0407/mace-rmd17-benchmark
    "MACE reports 8.8, 21.8 and 62.0 meV/A on the official frames",
    "published attention model reports 0.34 % for greedy tours",  # Kool et al. 2019, table 1
)


def unrecorded(page, text):
    """Return the numbers with a unit outside of computed tables and sentences."""
    text = joined(NO_PROSE.sub("", TABLE.sub("", text)))
    left = list(text)
    for phrase in (*(words for where, words in sentences() if where == page), *WITHOUT_RECORD):
        if (start := text.find(phrase)) >= 0:  # phrases may overlap
            left[start : start + len(phrase)] = " " * len(phrase)
    return WITH_UNIT.findall(NO_TEXT.sub("", "".join(left)))


def test_numbers_are_those_of_the_records():
    assert list(problems()) == []


@pytest.mark.parametrize("page", [page for page in PAGES if "generated" not in page])
def test_every_number_with_a_unit_has_a_record(page):
    text = (REPOSITORY / page).read_text()
    assert unrecorded(page, text) == []
    if page in ("README.md", "docs/benchmarks.md"):  # every number of a table, too
        cells = re.findall(r"^\|[^|\n]*\|(.*)", TABLE.sub("", text), re.MULTILINE)
        assert not any(found["number"] for cell in cells for found in NUMBER.finditer(cell))


def test_every_table_is_on_a_page():
    found = [m["name"] for page in PAGES for m in TABLE.finditer((REPOSITORY / page).read_text())]
    assert sorted(found) == sorted({**TABLES, **GENERATED})


def test_other_numbers_are_found_and_replaced():
    text = (REPOSITORY / "README.md").read_text()
    changed = text.replace("| 17x |", "| **18x** |")
    assert changed != text
    assert updated(changed) == text.replace("| 17x |", "| **17x** |")
    text += " In 3 s, 4 us or `5 s`, at 6 degrees."
    assert unrecorded("README.md", text) == ["3 s", "4 us"]


@pytest.mark.parametrize(
    ("written", "values", "expected"),
    [
        ("| 1 | 1.2 s |", [1.24], "| 1 | 1.2 s |"),
        ("| 1 | 1.2 s |", [1.25], "| 1 | 1.2 s |"),  # rounds to either
        ("| 1 | 1.2 s |", [1.26], "| 1 | 1.3 s |"),
        (
            "| 1 | seeds 0 to 2 | **2** to 3 % |",
            [0.031, 0.04],
            "| 1 | seeds 0 to 2 | **3** to 4 % |",
        ),
        ("| 1 | 3x / 12,345 |", [4, 12_346], "| 1 | 4x / 12,346 |"),
    ],
)
def test_numbers_keep_their_decimals(written, values, expected):
    assert row(written, values) == expected


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0, 3.0]])
def test_a_row_has_as_many_numbers_as_the_records(values):
    with pytest.raises(ValueError, match="numbers than the records"):
        row("| a | 1 | 2 |", values)
