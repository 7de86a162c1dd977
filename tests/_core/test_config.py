"""Configurations: reading, ranges, changes, and how messages show values."""

import json
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo._core.brief import brief_fields, shown
from equigeo._core.config import Config, Range, check_config, override
from equigeo._core.text import shorten
from tests.wrong_inputs import refused


@dataclass(frozen=True)
class Part(Config):
    title = "the part"
    size: int = 3
    rate: float = 0.5
    widths: tuple[int, ...] = (8, 16)
    bias: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.widths:
            raise ValueError("widths must not be empty")


@dataclass(frozen=True)
class Whole(Config):
    number: int
    part: Part = Part()
    names: tuple[str, ...] = ("a",)
    pair: tuple[int, float] = (1, 2.0)
    flag: bool = False
    kind: Literal["x", "y"] | None = None
    limit: int | None = 4
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Strict(Config):
    complete = True
    seed: int = 0


TEXTS = st.text('aé"\\\n\0\U0001f600')  # the table of all characters takes seconds to make
configs = st.builds(
    Whole,
    number=st.integers(),
    part=st.builds(Part, st.integers(), st.floats(allow_nan=False)),
    names=st.lists(TEXTS).map(tuple),
    flag=st.booleans(),
    kind=st.sampled_from(["x", "y", None]),
    limit=st.none() | st.integers(),
    extra=st.dictionaries(TEXTS, st.lists(st.integers()) | TEXTS),
)


@given(configs)
def test_json_gives_the_same_configuration_back(config):
    assert Whole.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_missing_fields_take_their_defaults_unless_the_configuration_is_complete():
    assert Whole.from_dict({"number": 1}) == Whole(1)
    assert Whole.from_dict({"number": 1, "part": {"size": 2}}).part == Part(2)
    assert Part.from_dict({"rate": 1}) == Part(rate=1.0)  # an integer is a float
    assert Strict.from_dict({"seed": 3}) == Strict(3)
    refused(r"missing fields \['seed'\]", Strict.from_dict, {})

    @dataclass(frozen=True)
    class Plain:
        size: int = 1

    refused("Plain must be a Config", Whole(1, extra={"plain": Plain()}).to_dict, error=TypeError)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "the configuration must be a JSON object, got list"),
        ({}, r"missing fields \['number'\]"),
        ({"number": 1, "colour": 2}, r"unknown fields \['colour'\]"),
        ({"number": 1, 2: 3}, r"unknown fields \['2'\]"),
        ({"number": True}, "number = True, expected int"),
        ({"number": "1"}, "number = '1', expected int"),
        ({"number": 1.0}, "number = 1.0, expected int"),
        ({"number": 1, "flag": 1}, "flag = 1, expected bool"),
        ({"number": 1, "names": "ab"}, r"names = 'ab', expected tuple\[str, ...\]"),
        ({"number": 1, "names": ["a", 2]}, "names"),
        ({"number": 1, "pair": [1]}, "pair"),
        ({"number": 1, "pair": ["a", 1.0]}, "pair"),
        ({"number": 1, "kind": "z"}, "kind = 'z'"),
        ({"number": 1, "limit": 1.5}, "limit = 1.5"),
        ({"number": 1, "extra": []}, "extra"),
        ({"number": 1, "part": {"size": None}}, "the part has size = None, expected int"),
        ({"number": 1, "part": 3}, "the part must be a JSON object, got int"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(values, message):
    refused(message, Whole.from_dict, values)


WHOLE = Whole(3, Part(bias=False), extra={"a": 1, "b": {"c": 2}})


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({}, WHOLE),
        ({"number": 4}, replace(WHOLE, number=4)),
        ({"part": {"widths": (4,)}}, replace(WHOLE, part=Part(widths=(4,), bias=False))),
        ({"part": Part()}, replace(WHOLE, part=Part())),
        ({"extra": {"b": {"d": 5}}}, replace(WHOLE, extra={"a": 1, "b": {"c": 2, "d": 5}})),
    ],
)
def test_what_is_named_changes_and_nothing_else(changes, want):
    assert override(WHOLE, changes) == want


def test_changes_are_checked():
    for changes, message in (
        ({"seize": 4}, "unknown fields .'seize'."),
        ({"part": {"width": (4,)}}, "unknown fields .'width'."),
        ({"part": {"bias": 1}}, "bias = 1, expected bool"),
        ({"part": {"widths": ()}}, "widths must not be empty"),
        ({"part": 3}, "must be a JSON object, got int"),
    ):
        refused(message, override, WHOLE, changes)


@pytest.mark.parametrize("wrong", [4.5, True, "4"])
def test_integers_of_options_are_of_any_library_and_no_flags(wrong):
    message = f"number must be an integer, got {wrong!r}"
    refused(message, override, WHOLE, {"number": wrong}, error=TypeError)
    refused(message, replace, WHOLE, number=wrong, error=TypeError)
    saved = {**WHOLE.to_dict(), "number": wrong}  # as read from a file
    refused(r"number = .*, expected int", Whole.from_dict, saved)
    changed = override(WHOLE, {"number": np.int64(4), "part": {"widths": (np.int64(4), 2)}})
    assert changed == replace(WHOLE, number=4, part=Part(widths=(4, 2), bias=False))
    assert type(changed.number) is type(changed.part.widths[0]) is int


def test_numbers_of_numpy_become_those_of_python():
    extra = {"a": [np.float32(0.5), np.int64(4)]}
    found = Whole(1, Part(rate=np.float32(0.5)), pair=(1, np.float64(2.0)), extra=extra)
    assert repr(found) == repr(Whole(1, pair=(1, 2.0), extra={"a": [0.5, 4]}))
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()
    assert type(Part(rate=1).rate) is int  # as files write it
    deep: list = [np.float32(0.5)]
    for _ in range(10**5):  # deeper than recursion
        deep = [deep]
    assert Whole(1, Part(), extra={"a": deep}).extra["a"][0]


def test_models_take_their_own_configuration_alone():
    check_config(WHOLE, Whole)
    for config, name in ((Part(), "Part"), ({"number": 3}, "dict"), (None, "None")):
        message = f"config must be a Whole, got {name}: see from_config"
        refused(message, check_config, config, Whole, error=TypeError)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("allowed", "value", "message"),
    [
        (Range(1, 64), 0, "x must be at least 1, got 0"),
        (Range(0, 64), -1, "x must not be negative, got -1"),
        (Range(0, 64, above=True), 0, "x must be positive, got 0"),
        (Range(2, 64, above=True), 2, "x must be more than 2, got 2"),
        (Range(1, 64), 65, "x must be at most 64, got 65"),
        (Range(1, 64, below=True), 64, "x must be less than 64, got 64"),
        (Range(1, 64), 10**400, "x must be at most 64, got an integer of 1329 bits"),
        (Range(0.0, 1.0), 1.5, "x must be between 0 and 1, got 1.5"),
        (Range(0.0, 1.0), NAN, "x must be between 0 and 1, got nan"),
        (Range(0.0, 1.0, below=True), 1, "x must be at least 0 and less than 1, got 1"),
        (Range(0.0, 5.0, above=True), INF, "x must be more than 0 and at most 5, got inf"),
        (Range(0.0, 5.0, above=True), NAN, "x must be positive, got nan"),
        (Range(0.0, 5.0, above=True), -INF, "x must be positive, got -inf"),
        (Range(1, 64), NAN, "x must be at most 64, got nan"),
        (Range(1, 64), (3, 70), r"x must be at most 64, got \(3, 70\)"),
        (Range(1, 64), {"a": [3, 70]}, "x must be at most 64, got {'a': "),
        (Range(1, 64), [1] * 65, "x must have at most 64 entries, got 65"),
        (Range(1, 64), [[[[[1]]]]], "x must not be nested so deeply"),
    ],
)
def test_what_is_out_of_range_is_named(allowed, value, message):
    refused(f"^{message}", allowed.check, "x", value)


def test_values_in_range_pass_and_those_without_order_raise():
    for value in (1, 64, 1.0, Fraction(3), None, True, "a", (), [1, [2]]):
        Range(1, 64).check("x", value)
    for value in (1j, b"a", object()):
        refused("x must be a number", Range(1, 64).check, "x", value, error=TypeError)


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
SHARED: list[Any] = []
for _ in range(60):
    SHARED = [SHARED, SHARED]


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, [1] * 10**6, 10**10_000, [10**10_000], CYCLE, SHARED, {"a": SHARED},
     torch.zeros(1).expand(10**12), object(), [["a" * 1000] * 1000] * 1000],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_whatever_it_is_fits_in_a_message(value):
    assert len(shown(value)) <= 80
    assert "\n" not in shown(value)


def test_short_values_are_shown_as_python_writes_them_and_long_texts_by_both_ends():
    for value in (None, True, 3, 2.5, float("inf"), "a", [1, "b"], (1,), {"a": 1}):
        assert shown(value) == repr(value)
    assert shown(Path("a/b")) == "'a/b'"
    assert shorten("0123456789", 10) == "0123456789"
    assert shorten("0123456789a", 10) == "0123...89a"
    assert shorten("0123456789", 4) == "0..."


def test_a_dataclass_on_one_line():
    @dataclass
    class Result:
        values: Any
        model: Any = None
        __repr__ = brief_fields

    assert repr(Result([1, 2])) == "Result(values=[1, 2], model=None)"
    long = repr(Result(["x" * 1000] * 1000, torch.nn.Linear(3, 3)))
    assert len(long) < 250
    assert long.endswith("of 1000, model=<Linear>)")
