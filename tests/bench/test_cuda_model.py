"""What is recorded of CUDA kernels, held to the figures that they must reach."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from equigeo.ops.runtime.declare import SCHEMAS
from tests.ops.self_test.test_cases import WITHOUT_CUDA_KERNELS

RECORD = Path(__file__).parents[2] / "bench" / "results" / "cuda_model.json"
TABLES = json.loads(RECORD.read_text("utf-8"))["tables"]
KERNELS = [(name, row) for name, table in TABLES.items() for row in table["kernels"]]
MOST_SECTORS, MOST_BANK_TURNS = 1.3, 1.1
"""Against the least: of ops that multiply channels, for MACE's large model."""


def test_every_op_has_kernels_and_a_bound():
    assert {name.partition(",")[0] for name in TABLES} == set(SCHEMAS) - WITHOUT_CUDA_KERNELS
    for table in TABLES.values():
        assert table["kernels"]
        assert table["H100 SXM"]["bound by"] in table["H100 SXM"]["microseconds"]


def test_every_kernel_was_compiled_for_both_architectures_without_spills():
    for name, row in KERNELS:
        assert set(row["compiled"]) == {"sm_80", "sm_90"}, (name, row["kernel"])
        for compiled in row["compiled"].values():
            assert compiled["bytes spilled"] == 0
            assert 0 < compiled["occupancy"] <= 1


@pytest.mark.parametrize(
    ("op", "orders"), [("channelwise_product", 3), ("channelwise_conv", 3), ("block_linear", 2)]
)
def test_lanes_read_neighbours(op, orders):
    tables = [table["kernels"] for name, table in TABLES.items() if name.startswith(op)]
    assert len(tables) == 2 * orders  # two layouts, values and gradients
    for kernels in tables:
        assert total(kernels, "{}load_sectors", "{}store_sectors") <= MOST_SECTORS
        assert total(kernels, "{}bank_turns") <= MOST_BANK_TURNS
        for row in kernels:
            # Plans are a hundredth of the sectors, and made by threads that each read a few rows.
            if not row["kernel"].startswith("plan_"):
                assert row["sectors against the least"] <= MOST_SECTORS
            assert row["bank turns against the least"] <= MOST_BANK_TURNS


def total(kernels: list[dict[str, float]], *counts: str) -> float:
    """What all kernels of an op count together, against the least."""
    found, least = (
        sum(row[count.format(prefix)] for row in kernels for count in counts)
        for prefix in ("", "least_")
    )
    return found / least
