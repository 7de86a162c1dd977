from __future__ import annotations

import sys

import pytest

from equigeo.graphs.neighbors.memory import available_bytes, check_size

MODULE = sys.modules["equigeo.graphs.neighbors.memory"]


@pytest.mark.parametrize(
    ("machine", "group", "want"),
    [(100, None, 100), (100, 50, 50), (None, 50, 50), (None, None, None)],
)
def test_the_least_that_is_known_counts(monkeypatch, machine, group, want):
    monkeypatch.setattr(MODULE, "_of_machine", lambda: machine)
    monkeypatch.setattr(MODULE, "_of_control_group", lambda: group)
    assert available_bytes() == want


def test_memory_of_this_machine_is_read():
    assert MODULE._of_machine() > 2**20


def test_what_does_not_fit_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr(MODULE, "available_bytes", lambda: 2 * 10**9)
    message = (
        r"cutoff must be smaller: it reaches 1e\+09 edges, which take 24 GB of memory where 2 GB"
    )
    with pytest.raises(ValueError, match=message):
        check_size(1e9, 3, "edges")
    check_size(1e8, 2)


def test_where_the_system_does_not_say_all_is_tried(monkeypatch):
    monkeypatch.setattr(MODULE, "available_bytes", lambda: None)
    check_size(1e30, 1)
