from hypothesis import given
from hypothesis import strategies as st

from equigeo.tasks.common.mesh_data import batches_by_faces, divide_by_faces

FACES = st.lists(st.integers(0, 20), max_size=12)


@given(FACES, st.integers(1, 5), st.integers(0, 30))
def test_evaluated_batches_are_as_large_as_they_may_be(faces, batch_size, most):
    found = list(batches_by_faces(faces, batch_size, most))
    assert [i for part in found for i in part] == list(range(len(faces)))
    sizes = [sum(faces[i] for i in part) for part in found]
    for k, part in enumerate(found):
        assert len(part) == 1 or (len(part) <= batch_size and sizes[k] <= most)
        if k:
            assert len(found[k - 1]) == batch_size or sizes[k - 1] + faces[part[0]] > most


@given(FACES, st.integers(0, 30))
def test_parts_of_a_trained_batch_have_two_meshes_and_no_more_faces_than_need_be(faces, most):
    indices = [7 * i for i in range(len(faces))]
    found = divide_by_faces(indices, faces, most)
    assert [i for part in found for i in part] == indices
    assert all(len(part) > 1 for part in found) or len(faces) == 1
    for k, part in enumerate(found):
        # one that is left over joins the last part
        counted = part[:-1] if k == len(found) - 1 else part
        assert len(counted) <= 2 or sum(faces[i // 7] for i in counted) <= most


def test_a_batch_that_fits_is_one_part():
    assert divide_by_faces([4, 2], [500, 500]) == [[4, 2]]
