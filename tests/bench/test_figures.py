"""Figures of README and of the documents are those of the records."""

import pytest

from bench import figures
from bench.claims import CLAIMS, EXCEPTIONS
from bench.figures import Claim, pages, problems, unclaimed

MOST_EXCEPTIONS = 4  # may only become smaller


def test_every_figure_is_that_of_its_record():
    assert [each for claim in CLAIMS for each in problems(claim)] == []


@pytest.mark.parametrize("page", pages())
def test_every_figure_has_a_record(page):
    exceptions = [words for where, words, _ in EXCEPTIONS if where == page]
    assert unclaimed(page, CLAIMS, exceptions) == []
    for words in exceptions:
        others = [other for other in exceptions if other != words]
        assert unclaimed(page, CLAIMS, others), f"{words!r} is no exception any more"


def test_exceptions_say_why_and_become_fewer():
    assert len(EXCEPTIONS) <= MOST_EXCEPTIONS
    assert all(reason for _, _, reason in EXCEPTIONS)


@pytest.fixture
def page(tmp_path, monkeypatch):
    """A page, and how to write it."""
    monkeypatch.setattr(figures, "REPOSITORY", tmp_path)
    monkeypatch.setattr(figures, "WITH_TABLES", ("page.md",))

    def write(text):
        figures.prose.cache_clear()
        figures.plain.cache_clear()
        (tmp_path / "page.md").write_text(text)
        return "page.md"

    yield write
    figures.prose.cache_clear()
    figures.plain.cache_clear()


@pytest.mark.parametrize(
    ("text", "values", "right"),
    [
        ("takes {} s", [1.24], True),
        ("takes {} s", [1.26], False),
        ("takes {} s", [1.25], True),  # rounds to either
        ("takes {} s", [1.14], False),
        ("takes {} s", [(1.0, 0.5)], True),
        ("takes {} s", [(0.9, 0.5)], False),
        ("takes {} s", [1.2, 1.3], False),
        ("took {} s", [1.2], False),
    ],
)
def test_a_number_is_right_if_the_value_rounds_to_it(page, text, values, right):
    claim = Claim(page("It **takes\n1.2** s."), text, lambda: values)
    assert (list(problems(claim)) == []) == right


def test_thousands_and_powers_are_numbers(page):
    where = page("of 12,345 and 1.5e-6.")
    assert list(problems(Claim(where, "of {} and {}.", lambda: [12345.4, 1.46e-6]))) == []
    assert len(list(problems(Claim(where, "of {} and {}.", lambda: [12346.0, 1.4e-6])))) == 2


def test_words_that_stand_twice_are_no_claim(page):
    (found,) = problems(Claim(page("1 s and 2 s"), "{} s", lambda: [1.0]))
    assert "stands there 2 times" in found


def test_figures_without_a_claim_are_found(page):
    where = page(
        "# 3 s\n\nThree of 4 in 5 s, 6, 7 and 8 %, `9 s`, [text](10 s).\n\n"
        "| what | 11 |\n|---|---|\n| 12 | **13** |\n\nAt 14 degrees.\n"
    )
    left = unclaimed(where, [])
    numbers = [each.partition("[")[2].partition("]")[0] for each in left]
    assert numbers == ["5", "6", "7", "8", "13"]
    claims = [Claim(where, "in {} s, {},", lambda: []), Claim(where, "12 | {} |", lambda: [])]
    assert len(unclaimed(where, claims, ["7 and 8 %"])) == 0
