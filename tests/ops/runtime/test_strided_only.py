import pytest
import torch

from equigeo.graphs import EdgeIndex
from equigeo.ops import gather_sum, symmetric_eigen
from equigeo.ops.runtime.strided_only import OTHERS


def test_sparse_tensors_are_refused_in_a_sentence():
    eigen = torch.eye(3)[None]
    for sparse in (eigen.to_sparse(), eigen.to_sparse().requires_grad_()):
        with pytest.raises(
            TypeError, match=r"tensors must be strided, got one of layout torch\.sp"
        ):
            symmetric_eigen(sparse)


def test_sparse_indices_are_refused_too():
    edges = EdgeIndex.from_edges(torch.tensor([[0, 1], [1, 1]]), 2, 2)
    indices = [edges.source.to_sparse(), edges.ptr, edges.back_target, edges.back_ptr]
    with pytest.raises(TypeError, match=r"layout torch\.sparse_coo"):
        gather_sum(torch.ones(2, 3), *indices)


def test_keys_are_those_of_pytorch():
    for key in OTHERS:
        assert torch._C._dispatch_key_parse(key) is not None
