"""The page of all records is that of the records."""

from __future__ import annotations

from bench.results_table import PAGE, UNKNOWN, content, seen


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == content(), "python -m bench.results_table --write"


def test_what_was_not_recorded_is_said_so():
    assert seen(["AMD EPYC", None, "AMD EPYC"]) == f"AMD EPYC, {UNKNOWN}"
