"""Every number of every configuration has a range, so that no file can ask for anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import pytest

from equigeo.nn.config import Config
from equigeo.nn.value_range import Range
from equigeo.tasks import TASKS


def subclasses(cls: type[Config]) -> Iterator[type[Config]]:
    for sub in cls.__subclasses__():
        if sub.__module__.startswith("equigeo."):
            yield sub
        yield from subclasses(sub)


CONFIGS = sorted(set(subclasses(Config)), key=lambda cls: cls.__name__)


def holds_numbers(hint: Any) -> bool:
    return hint in (int, float, Any) or any(map(holds_numbers, get_args(hint)))


def test_all_tasks_are_among_them():
    assert {task.config_type for task in TASKS} <= set(CONFIGS)
    assert len(CONFIGS) > 12


@pytest.mark.parametrize("cls", CONFIGS, ids=lambda cls: cls.__name__)
def test_every_number_has_a_range(cls):
    hints = get_type_hints(cls)
    numbers = {field.name for field in fields(cls) if holds_numbers(hints[field.name])}
    assert numbers == set(cls.ranges)
    assert all(isinstance(allowed, Range) for allowed in cls.ranges.values())
