import re

import pytest

from bench import short
from bench.recorder import REPOSITORY
from equigeo.ops.runtime.declare import SCHEMAS


def test_every_op_is_beside_a_peer():
    pairs = {f"op, {op}, against reference" for op in SCHEMAS}
    # Its body is made of PyTorch's functions.
    assert pairs - short.pairs().keys() == {"op, principal_axes_nd, against reference"}


def test_every_benchmark_is_called_once():
    ids = short.called_once()
    assert len(ids) == len(set(ids))
    functions = {
        f"bench/{path.name}::{name}"
        for path in (REPOSITORY / "bench").glob("bench_*.py")
        for name in re.findall(r"^def (bench_\w+)", path.read_text(), re.MULTILINE)
    }
    assert {one.partition("[")[0] for one in ids} == functions


def times(ours, peer):
    return short.row([ours] * 3, [peer] * 3)


def test_a_ratio_has_fallen_by_more_than_a_fifth():
    before = {"a": times(1.0, 10.0), "b": times(1.0, 10.0), "c": times(1.0, 10.0)}
    now = {"a": times(1.0, 7.9), "b": times(1.24, 10.0), "d": times(1.0, 1.0)}
    assert short.fallen(now, before) == {"a": pytest.approx(0.79)}
