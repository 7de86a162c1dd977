"""A few of the cases; ``python -m tests.fuzz --target command_lines`` runs more."""

from __future__ import annotations

from itertools import islice

from tests.fuzz.command_lines import cases


def test_hostile_command_lines_end_with_a_message():
    for case in islice(cases(seed=0), 150):
        case.call()
