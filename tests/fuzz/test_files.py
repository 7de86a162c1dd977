from itertools import islice

from tests.fuzz.files import cases
from tests.tier import FULL

KNOWN = 50  # more than there are that are hostile for sure
COUNT = 150 if FULL else 50


def test_seed_determines_the_cases():
    first, again, other = ([c.label for c in islice(cases(s), 200)] for s in (0, 0, 1))
    assert first == again != other


def test_damaged_files_are_read_or_refused():
    for case in islice(cases(0), KNOWN, KNOWN + COUNT):
        message = "read"
        try:
            case.call()
        except case.refused_by as error:
            message = str(error)
        assert 0 < len(message) <= 400, case.label
