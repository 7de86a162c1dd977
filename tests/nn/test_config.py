from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equigeo.nn.config import Config


@dataclass(frozen=True)
class Part(Config):
    title = "the part"
    size: int = 3
    rate: float = 0.5


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


configs = st.builds(
    Whole,
    number=st.integers(),
    part=st.builds(Part, st.integers(), st.floats(allow_nan=False)),
    names=st.lists(st.text()).map(tuple),
    flag=st.booleans(),
    kind=st.sampled_from(["x", "y", None]),
    limit=st.none() | st.integers(),
    extra=st.dictionaries(st.text(), st.lists(st.integers()) | st.text()),
)


@given(configs)
def test_json_gives_the_same_configuration_back(config):
    assert Whole.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_missing_fields_take_their_defaults():
    assert Whole.from_dict({"number": 1}) == Whole(1)
    assert Whole.from_dict({"number": 1, "part": {"size": 2}}).part == Part(2)


def test_an_integer_is_a_float():
    assert Part.from_dict({"rate": 1}) == Part(rate=1.0)


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
    with pytest.raises(ValueError, match=message):
        Whole.from_dict(values)


def test_a_complete_configuration_takes_no_defaults():
    assert Strict.from_dict({"seed": 3}) == Strict(3)
    with pytest.raises(ValueError, match=r"missing fields \['seed'\]"):
        Strict.from_dict({})


def test_a_plain_dataclass_inside_is_refused():
    @dataclass(frozen=True)
    class Plain:
        size: int = 1

    with pytest.raises(TypeError, match="Plain must be a Config"):
        Whole(1, extra={"plain": Plain()}).to_dict()
