from __future__ import annotations

import pytest
import torch

from equigeo.graphs import neighbor_list

CELL = torch.tensor([[2.0, 0, 0], [0.3, 2.1, 0], [0, 0.4, 1.9]], dtype=torch.float64)
POINTS = torch.tensor([[0.0, 0, 0], [1, 1, 1], [0.5, 0.1, 1.2]], dtype=torch.float64)


def test_vectors_can_be_computed_for_other_positions():
    edges = neighbor_list(POINTS, 2.5, CELL)
    assert torch.equal(edges.edge_vectors(POINTS, CELL), edges.vectors)
    assert torch.equal(edges.edge_vectors(POINTS, CELL[None]), edges.vectors)
    assert torch.equal(edges.edge_vectors(2 * POINTS, 2 * CELL), 2 * edges.vectors)
    assert edges.edge_vectors(POINTS.float(), CELL).dtype == torch.float32


def test_without_crossing_edges_no_cell_is_needed():
    edges = neighbor_list(POINTS, 2.5)
    assert torch.equal(edges.edge_vectors(POINTS), edges.vectors)


def test_what_does_not_fit_is_refused():
    edges = neighbor_list(POINTS, 2.5, CELL)
    with pytest.raises(ValueError, match="cell must be given, since edges cross it, got None"):
        edges.edge_vectors(POINTS)
    with pytest.raises(ValueError, match=r"positions must be \(3, dim\), got \(2, 3\)"):
        edges.edge_vectors(POINTS[:2], CELL)
    with pytest.raises(ValueError, match=r"cell must be \(3, 3\) or \(systems, 3, 3\)"):
        edges.edge_vectors(POINTS, CELL[0])
    with pytest.raises(ValueError, match=r"cell must be \(3, 3\) for one system"):
        edges.edge_vectors(POINTS, CELL.expand(2, 3, 3))


def test_lists_move_between_devices_and_show_shapes():
    edges = neighbor_list(POINTS, 2.5, CELL, ptr=torch.tensor([0, 1, 3])).to("meta")
    assert all(x.is_meta for x in (edges.edge_index, edges.shifts, edges.vectors, edges.batch))
    assert edges.num_edges == edges.distances.shape[0]
    assert "edge_index=(2, " in repr(edges)


def test_coincident_points_have_a_gradient():
    positions = torch.zeros(2, 3, requires_grad=True)
    neighbor_list(positions, 1.0).distances.sum().backward()
    assert torch.equal(positions.grad, torch.zeros(2, 3))


def test_edges_that_were_read_in_inference_mode_can_be_trained_with():
    found = neighbor_list(POINTS, 2.5, CELL)
    with torch.inference_mode():
        edges = found.edges
    assert not edges.order.is_inference()
    assert not edges.edge_index.is_inference()
