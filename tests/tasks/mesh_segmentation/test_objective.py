"""Cross-entropy of faces against a loop over meshes."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from equigeo.tasks.mesh_segmentation.objective import PADDING, FaceCrossEntropy, mesh_mean_weights
from equigeo.training.labelled_source import LabelledBatch


@given(
    st.lists(st.lists(st.integers(-1, 2), min_size=1, max_size=9), min_size=1, max_size=5),
    st.sampled_from([0.0, 0.1]),
)
def test_every_mesh_counts_alike(rows, smoothing):
    labels = [torch.tensor(row) for row in rows]
    logits = torch.randn(sum(map(len, rows)), 3, dtype=torch.float64)
    padded = pad_sequence(labels, batch_first=True, padding_value=PADDING)
    batch = LabelledBatch(logits, padded, len(rows))
    loss, right = FaceCrossEntropy(smoothing).sums(nn.Identity(), batch)
    wanted, hits = 0.0, 0.0
    for part, row in zip(logits.split([len(row) for row in rows]), labels, strict=True):
        known = row >= 0
        if bool(known.any()):
            wanted += F.cross_entropy(part[known], row[known], label_smoothing=smoothing).item()
            hits += (part.argmax(1) == row)[known].double().mean().item()
    torch.testing.assert_close(loss.item(), wanted)
    torch.testing.assert_close(right.item(), hits)


def test_weights_of_unlabelled_meshes_are_zero():
    weights = mesh_mean_weights(torch.tensor([0, 0, 1]), torch.tensor([False, False, True]), 2)
    assert weights.tolist() == [0, 0, 1]


def test_meshes_without_a_labelled_face_do_not_count():
    labels = torch.tensor([[0, 1, PADDING], [-1, -1, -1], [-1, 1, PADDING]])
    assert FaceCrossEntropy().counted(LabelledBatch(None, labels, 3)) == 2
