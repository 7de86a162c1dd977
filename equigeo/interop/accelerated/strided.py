"""Accelerated layers of Allegro, which stores each channel with all its components."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from equigeo.interop.accelerated.base import Accelerated, fit, random, random_graph
from equigeo.ops import Path, PathTable, Segment
from equigeo.ops.products.connected import copywise_product_op
from equigeo.tensor_products.path_tables import StoredTable

DTYPES = (torch.float32, torch.float64)  # that the op supports


class StridedPaths(nn.Module):
    """A product of rows along paths whose segments lie anywhere, so that nothing is permuted."""

    def __init__(self, paths: list[Path], dims: tuple[int, int, int, int]) -> None:
        super().__init__()
        self.stored = StoredTable(PathTable.from_paths(paths, dims))

    def forward(self, x: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Multiply rows, to (rows, dim_out)."""
        table = self.stored.for_dtype(x.dtype)
        tables = (table.paths, table.entries, table.values)
        return copywise_product_op(x, y, weight, *tables, table.dim_out)


class AcceleratedContracter(Accelerated):
    """Allegro's ``Contracter``: channels of edges times those of their centers, in one op."""

    runs_on = "equigeo.ops.copywise_product"

    irreps_in1: Any
    mul: int
    base_dim1: int
    base_dim2: int
    base_dim_out: int
    num_paths: int
    w3j: Tensor
    weights: Tensor
    accelerated: StridedPaths

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        mul, table = module.mul, module.w3j
        if table.is_meta:
            raise ValueError("its table is on the meta device")
        table = table.detach().cpu().double()
        table = table[None] if module.num_paths == 1 else table
        if module.w3j_is_ij_diagonal:
            table = torch.diag_embed(table.mT).permute(0, 2, 3, 1)
        sides = [
            [Segment(part.start, mul, part.stop - part.start, dim, 1) for part in irreps.slices()]
            for irreps, dim in zip(
                (module.irreps_in1, module.irreps_in2, module.irreps_out), table.shape[1:],
                strict=True,
            )
        ]  # fmt: skip
        paths = []
        for number, values in enumerate(table):
            entry = values.abs().argmax()
            x, y, out = (
                next(part for part in side if part.offset <= place < part.offset + part.d)
                for side, place in zip(sides, torch.unravel_index(entry, values.shape), strict=True)
            )
            block = tuple(slice(part.offset, part.offset + part.d) for part in (x, y, out))
            paths.append(Path(x, y, out, number * mul, values[block]))
        first, second, third = (mul * dim for dim in table.shape[1:])
        body = StridedPaths(paths, (first, second, mul * len(paths), third))
        return body.to(module.w3j.device)

    def forward(self, x1: Tensor, x2: Tensor, idxs: Tensor) -> Tensor:
        """Multiply as ``Contracter`` does, (edges, mul, base_dim_out)."""
        if not self.is_as_read() or not fit(x1, x2, self.weights) or x1.dtype not in DTYPES:
            return self.original(x1, x2, idxs)
        x1 = x1.reshape(-1, self.mul * self.base_dim1)
        x2 = x2.reshape(-1, self.mul * self.base_dim2).index_select(0, idxs)
        weights = self.weights.reshape(-1, self.num_paths).T.expand(-1, self.mul).reshape(1, -1)
        out: Tensor = self.accelerated(x1, x2, weights.expand(x1.shape[0], -1))
        return out.view(-1, self.mul, self.base_dim_out)

    def renew(self) -> None:
        # Allegro saves the couplings.
        body: Any = self.body_of(self)
        self.accelerated = body.train(self.training)

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        nodes, edges = random_graph(rows, self.weights.device)
        x1 = random(rows, self.mul, self.base_dim1, like=self.weights)
        return x1, random(nodes, self.mul, self.base_dim2, like=self.weights, seed=1), edges[0]


class AcceleratedWeightedChannels(Accelerated):
    """Allegro's ``MakeWeightedChannels``: harmonics of edges times a weight per channel."""

    runs_on = "equigeo.ops.copywise_product"

    multiplicity_out: int
    weight_numel: int
    weight_individual_irreps: bool
    alpha: float
    _rtoi: Tensor
    accelerated: StridedPaths

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        if not module.weight_individual_irreps:
            raise ValueError("has one weight for all irreps of a channel")
        mul, table = module.multiplicity_out, module._rtoi
        if table.is_meta:
            raise ValueError("its table is on the meta device")
        count, dim = table.shape
        paths = []
        for number, row in enumerate(table.detach().cpu().double()):
            (places,) = row.nonzero(as_tuple=True)
            first, d = int(places[0]), len(places)
            values = torch.diag_embed(row[first : first + d])[:, None]
            weight, out = Segment(number, mul, 1, count, 1), Segment(first, mul, d, dim, 1)
            paths.append(Path(Segment.block(first, 1, d), weight, out, None, values))
        body = StridedPaths(paths, (dim, mul * count, 0, mul * dim))
        return body.to(table.device)

    def forward(self, edge_attr: Tensor, weights: Tensor) -> Tensor:
        """Multiply as ``MakeWeightedChannels`` does, (edges, channels, components)."""
        if not self.is_as_read() or not fit(edge_attr, weights) or weights.dtype not in DTYPES:
            return self.original(edge_attr, weights)
        out: Tensor = self.accelerated(edge_attr, weights.reshape(-1, self.weight_numel))
        return out.view(-1, self.multiplicity_out, self._rtoi.shape[1])

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        attributes = random(rows, self._rtoi.shape[1], like=self._rtoi)
        return attributes, random(rows, self.weight_numel, like=self._rtoi, seed=1)
