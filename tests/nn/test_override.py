from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from equigeo.nn.config import Config
from equigeo.nn.override import check_config, override


@dataclass(frozen=True)
class Part(Config):
    widths: tuple[int, ...] = (8, 16)
    bias: bool = True

    def __post_init__(self) -> None:
        if not self.widths:
            raise ValueError("widths must not be empty")


@dataclass(frozen=True)
class Whole(Config):
    size: int
    part: Part = field(default_factory=Part)
    settings: dict[str, Any] = field(default_factory=dict)


WHOLE = Whole(3, Part(bias=False), {"a": 1, "b": {"c": 2}})


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({}, WHOLE),
        ({"size": 4}, Whole(4, WHOLE.part, WHOLE.settings)),
        ({"part": {"widths": (4,)}}, Whole(3, Part((4,), bias=False), WHOLE.settings)),
        ({"part": Part()}, Whole(3, Part(), WHOLE.settings)),
        ({"settings": {"b": {"d": 5}}}, Whole(3, WHOLE.part, {"a": 1, "b": {"c": 2, "d": 5}})),
    ],
)
def test_what_is_named_changes_and_nothing_else(changes, want):
    assert override(WHOLE, changes) == want


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seize": 4}, "unknown fields .'seize'."),
        ({"part": {"width": (4,)}}, "unknown fields .'width'."),
        ({"size": 4.5}, "size = 4.5, expected int"),
        ({"part": {"widths": ()}}, "widths must not be empty"),
        ({"part": 3}, "must be a JSON object, got int"),
    ],
)
def test_changes_are_checked(changes, message):
    with pytest.raises(ValueError, match=message):
        override(WHOLE, changes)


def test_models_take_their_own_configuration_alone():
    check_config(WHOLE, Whole)
    for config, name in ((Part(), "Part"), ({"size": 3}, "dict"), (None, "None")):
        with pytest.raises(TypeError, match=f"config must be a Whole, got {name}: see from_config"):
            check_config(config, Whole)
