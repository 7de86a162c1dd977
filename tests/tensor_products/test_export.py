"""Exported layers of the mode matrix take other numbers of rows than they were exported with."""

import pytest
import torch

from tests.modes.product_rows import product_rows
from tests.tier import tier

ROWS = {row.name: row for row in product_rows() if row.rows}
FEW = ["nn.Gate", "tensor_products.SymmetricContraction"]


@pytest.mark.parametrize("name", tier(FEW, sorted(ROWS)))
def test_export_takes_any_number_of_rows(name):
    bound, inputs = ROWS[name].bound(), ROWS[name].inputs()
    rows = torch.export.Dim("rows")
    shapes = (tuple({0: rows} for _ in inputs),)
    program = torch.export.export(bound, inputs, dynamic_shapes=shapes).module()
    for more in (3, 9):
        given = tuple(x.repeat(3, *[1] * (x.ndim - 1))[:more] for x in inputs)
        torch.testing.assert_close(program(*given), bound(*given))
