"""One row per compiled op; every test of ``test_ops.py`` runs on every row."""

from tests.ops.graph_rows import graph_rows
from tests.ops.op import Op
from tests.ops.product_rows import product_rows
from tests.ops.table_rows import table_rows

OPS: list[Op] = [*graph_rows(), *product_rows(), *table_rows()]
OF_PYTORCH = [op for op in OPS if not op.of_kernels]
"""Rows with which modes are tried, and what PyTorch demands of an op."""
