"""The target of files, a few cases of it: the same for the same seed, and answered as promised."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.fuzz.case import Case
from tests.fuzz.files import cases

KNOWN = 50  # more than there are that are hostile for sure


def test_a_seed_says_which_cases():
    first, again, other = ([c.label for c in islice(cases(s), 200)] for s in (0, 0, 1))
    assert first == again != other


@pytest.mark.parametrize("case", [*islice(cases(0), KNOWN, KNOWN + 150)], ids=lambda c: c.label)
def test_a_damaged_file_is_read_or_refused(case: Case):
    message = "read"
    try:
        case.call()
    except case.refused_by as error:
        message = str(error)
    assert 0 < len(message) <= 400
