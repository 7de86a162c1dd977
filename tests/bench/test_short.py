import re

import pytest

from bench import short
from bench.recorder import REPOSITORY
from equigeo.ops.runtime.declare import SCHEMAS

# Ops without a case of the self-test, and the pair that times them, if any does.
ELSEWHERE = {
    "attention_conv": "attention_conv, forward, against geometric",
    "attention_conv_backward": "attention_conv, forward and backward, against geometric",
    "copywise_product_double_backward": "full, second, against e3nn",
    "fully_connected_product_double_backward": "fully_connected, second, against e3nn",
    "principal_axes_nd": None, "relu_batch_norm": None, "relu_batch_norm_backward": None,
}  # fmt: skip


def test_every_op_is_beside_a_peer():
    timed = {f"op, {op}, against reference" for op in SCHEMAS} & short.pairs().keys()
    assert {f"op, {op}, against reference" for op in SCHEMAS.keys() - ELSEWHERE.keys()} == timed
    assert {pair for pair in ELSEWHERE.values() if pair} <= short.pairs().keys()
    assert sum(pair is None for pair in ELSEWHERE.values()) <= 3  # may only become smaller


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
