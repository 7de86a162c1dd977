"""Neighbor lists on a device, against the search by trees on the CPU, bit by bit."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from equigeo.graphs import NeighborList, VerletList, knn_graph, neighbor_list, radius_graph
from tests.graphs.conformance import Case, cases

CPU = torch.device("cpu")
Search = Callable[[torch.device, str], list[Tensor]]


def check_lists(device: torch.device) -> dict[str, Any]:
    """The conformance suite, and clouds with ties, batches and moving points, twice."""
    rows, failures = {}, []
    for name, search in searches():
        want = search(CPU, "scipy")
        try:
            found, again = (search(device, "cells") for _ in range(2))
            pairs = [*zip(found, want, strict=True), *zip(again, want, strict=True)]
            same = all(equal(mine.cpu(), wanted) for mine, wanted in pairs)
            rows[name] = "passed" if same else "failed: other edges"
        except RuntimeError as error:
            rows[name] = f"failed: {' '.join(str(error).split())[:300]}"
        if rows[name] != "passed":
            failures.append(f"{name}: {rows[name]}")
    return {"rows": rows, "failures": failures}


def equal(x: Tensor, y: Tensor) -> bool:
    """Whether values are equal, and signs of zeros."""
    return torch.equal(x, y) and torch.equal(x.signbit(), y.signbit())


def searches() -> Iterator[tuple[str, Search]]:
    for case in cases():
        yield case.name, partial(of_case, case)
    generator = torch.Generator().manual_seed(0)
    cloud = 20 * torch.rand(20_000, 3, generator=generator)
    grid = torch.cartesian_prod(*[torch.arange(12.0)] * 3)
    ptr = torch.tensor([0, 700, 700, 1728])
    yield "cloud in a cell", partial(of_cloud, cloud)
    yield "grid within a radius", lambda d, b: [radius_graph(grid.to(d), 2, ptr=ptr, backend=b)]
    yield "nearest of a grid", lambda d, b: [knn_graph(grid.to(d), 9, ptr=ptr, backend=b)]
    yield "nearest of a cloud", lambda d, b: [knn_graph(cloud[:5000].to(d), 9, backend=b)]
    yield "moving points", partial(moving, cloud[:2000])


def of_case(case: Case, device: torch.device, backend: str) -> list[Tensor]:
    x, cell = (None if v is None else torch.tensor(v) for v in (case.positions, case.cell))
    x, cell = x.to(device), None if cell is None else cell.to(device)
    return tensors(neighbor_list(x, case.cutoff, cell, case.pbc, backend=backend))


def of_cloud(x: Tensor, device: torch.device, backend: str) -> list[Tensor]:
    cell = torch.tensor([[20.0, 0, 0], [4, 20, 0], [0, -6, 20]])
    ptr, cells = torch.tensor([0, 9000, len(x)]), torch.stack([cell, cell.flip(0)]).to(device)
    return tensors(neighbor_list(x.to(device), 1.5, cells, ptr=ptr, backend=backend))


def moving(x: Tensor, device: torch.device, backend: str) -> list[Tensor]:
    verlet, cell = VerletList(2.0, 0.3, backend=backend), 20 * torch.eye(3)
    steps = [(x * s, cell * s) for s in (1.0, 1.01, 0.99, 0.8)]
    return [v for x, h in steps for v in tensors(verlet.update(x.to(device), h.to(device)))]


def tensors(edges: NeighborList) -> list[Tensor]:
    return [edges.edge_index, edges.shifts, edges.vectors]
