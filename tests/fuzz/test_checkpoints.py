"""A few of the cases; ``python -m tests.fuzz --target checkpoints`` runs more."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice

from tests.fuzz.checkpoints import cases


def test_hostile_checkpoints_are_refused():
    refused = 0
    for case in islice(cases(seed=0), 150):
        with suppress(*case.refused_by):
            case.call()
            assert not case.must_refuse, case.label
            continue
        refused += 1
    assert refused > 100


def test_a_seed_gives_the_same_cases():
    first, second = ([case.label for case in islice(cases(seed=1), 30)] for _ in range(2))
    assert first == second
    assert first != [case.label for case in islice(cases(seed=2), 30)]
