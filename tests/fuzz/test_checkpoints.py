from contextlib import suppress
from itertools import islice

from tests.fuzz.checkpoints import cases
from tests.tier import FULL

COUNT = 150 if FULL else 50


def test_hostile_checkpoints_are_refused():
    refused = 0
    for case in islice(cases(seed=0), COUNT):
        with suppress(*case.refused_by):
            case.call()
            assert not case.must_refuse, case.label
            continue
        refused += 1
    assert refused > 2 * COUNT / 3


def test_seed_determines_the_cases():
    first, second = ([case.label for case in islice(cases(seed=1), 30)] for _ in range(2))
    assert first == second
    assert first != [case.label for case in islice(cases(seed=2), 30)]
