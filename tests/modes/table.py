"""All rows of the mode matrix."""

from __future__ import annotations

from tests.modes.affine_rows import affine_rows
from tests.modes.cloud_rows import cloud_rows
from tests.modes.mesh_rows import mesh_rows
from tests.modes.op_rows import op_rows
from tests.modes.product_rows import product_rows
from tests.modes.row import Row

ROWS: list[Row] = [*product_rows(), *affine_rows(), *mesh_rows(), *cloud_rows(), *op_rows()]
