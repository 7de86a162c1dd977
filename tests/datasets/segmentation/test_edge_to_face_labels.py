import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.datasets.segmentation.edge_to_face_labels import edge_to_face_labels

_THREE = st.tuples(*(st.integers(-1, 3),) * 3)
_LENGTHS = st.permutations([1.0, 2.0, 3.0])


def _majority(labels, lengths):
    known = [label for label in labels if label >= 0]
    if not known:
        return -1, False
    most = max(known.count(label) for label in known)
    leading = {label for label in known if known.count(label) == most}
    edges = [k for k in range(3) if labels[k] in leading]
    return labels[max(edges, key=lambda k: lengths[k])], len(leading) > 1


@given(st.lists(st.tuples(_THREE, _LENGTHS), min_size=1, max_size=20))
def test_labels_are_those_of_a_vote(rows):
    labels, lengths = (list(column) for column in zip(*rows, strict=True))
    found, ambiguous = edge_to_face_labels(torch.tensor(labels), torch.tensor(lengths))
    expected = [_majority(*row) for row in rows]
    assert list(zip(found.tolist(), ambiguous.tolist(), strict=True)) == expected


def test_of_equally_long_edges_the_first_decides():
    found, ambiguous = edge_to_face_labels(torch.tensor([[2, 1, 0]]), torch.ones(1, 3))
    assert (found.tolist(), ambiguous.tolist()) == ([2], [True])


def test_faces_of_another_order_have_the_same_labels():
    """The reference writes labels back into edges, and so depends on the order."""
    labels, lengths = torch.randint(0, 3, (50, 3)), torch.rand(50, 3)
    order = torch.randperm(50)
    found, _ = edge_to_face_labels(labels, lengths)
    assert torch.equal(edge_to_face_labels(labels[order], lengths[order])[0], found[order])
