"""``equigeo selftest``: each op beside its reference implementation."""

from __future__ import annotations

import json

from equigeo.cli import main, selftest
from equigeo.ops import OpCheck, check_ops
from equigeo.ops.runtime.declare import SCHEMAS


def test_json_has_every_op(capsys, monkeypatch):
    # compares nothing, because there are no kernels; tests/ops/self_test compares all
    monkeypatch.setattr(selftest.equigeo.ops, "check_ops", lambda device: check_ops("meta"))
    assert main(["selftest", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {check["op"] for check in found["ops"]} == {*SCHEMAS}
    assert found["problems"] == []
    assert found["seconds"] >= 0


def test_a_line_for_each_op_unless_quiet(capsys, monkeypatch):
    checks = [
        OpCheck("gather_sum", "passed", "", 0.1),
        OpCheck("block_linear", "reference only", "no kernel", 0.0),
        OpCheck("grid_product", "failed", "grid_product: \x1b it differs", 0.1),
    ]
    monkeypatch.setattr(selftest.equigeo.ops, "check_ops", lambda device: checks)
    assert main(["selftest"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "gather_sum    passed  0.10 s"
    assert lines[2] == r"FAILED grid_product: \x1b it differs"
    assert lines[3].startswith("3 ops beside their reference implementations in ")
    assert lines[3].endswith("1 failed, 1 passed, 1 reference only")
    assert main(["selftest", "--quiet"]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 2
