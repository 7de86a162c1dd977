"""Functions and layers of embeddings with one argument wrong, and what results show."""

import pytest
import torch

from equigeo import mds
from equigeo.reps import Irreps
from tests.mds.clouds import QUIET, generic
from tests.wrong_inputs import Wrong, wrong_calls

CLOUDS = generic(9, batch=(2,))
MASK = torch.ones(2, 9, dtype=torch.bool)
WEIGHTS = torch.rand(2, 9, dtype=torch.float64)
DISTANCES = torch.cdist(CLOUDS[0], CLOUDS[0])
CITIES = torch.rand(2, 7, 2)
FRAMES = mds.frames(CLOUDS, kind="frames")
RESULT = mds.embed(CLOUDS)
ROUTER = mds.AttentionModel.preset("default").eval()
NONE = {"mask: None", "weights: None", "lengths: None", "starts: None"}
# Any dtype, width and number of batch axes is a cloud, and a warning says what is doubtful.
ANY = {f"x: {k}" for k in ("integers", "other dtype", "wider", "meta", "one axis more", "longer")}


def embed(x, mask, weights):
    return mds.embed(x, mask=mask, weights=weights, options=QUIET)


CALLS: list[Wrong] = [
    *wrong_calls(
        embed,
        {"x": CLOUDS, "mask": MASK, "weights": WEIGHTS},
        names={"x": "points|mask"},
        fine=NONE
        | {"x: integers", "x: other dtype", "x: wider", "mask: meta", "x: meta", "weights: meta"}
        | {"weights: integers", "weights: other dtype"},
    ),
    *wrong_calls(
        lambda x: mds.frames(x, options=QUIET), {"x": CLOUDS}, names={"x": "points"}, fine=ANY
    ),
    *wrong_calls(
        mds.Invariant(torch.nn.Linear(3, 2).double(), options=QUIET),
        {"x": CLOUDS},
        names={"x": "points"},
        fine=ANY - {"x: wider"},
    ),
    *wrong_calls(
        mds.InvariantPointNet.preset("pointnet", 3).eval(),
        {"points": CLOUDS.float(), "mask": MASK},
        names={"points": "points|mask"},
        fine=NONE | {"mask: meta", "points: one axis more", "mask: one axis more"},
    ),
    *wrong_calls(
        lambda x: mds.frame_average(torch.sin, x), {"x": FRAMES}, names={"x": "frames"}
    ),
    *wrong_calls(mds.sample_frame, {"frames": FRAMES}),
    *wrong_calls(
        mds.frame_lift,
        {"h": RESULT.y, "frames": RESULT, "rep": Irreps("1o")},
        names={"h": "features"},
        fine={"h: complex", "h: integers", "h: other dtype", "h: meta"},
    ),
    *wrong_calls(
        mds.distance_embed,
        {"distances": DISTANCES},
        fine={"distances: other dtype", "distances: one axis more", "distances: integers",
              "distances: meta"},
    ),
    *wrong_calls(
        mds.landmark_embed,
        {"landmark_distances": DISTANCES[:4, :4], "distances": DISTANCES[:, :4]},
        names={"landmark_distances": "landmark_distances|distances"},
        fine={f"{n}: {k}" for n in ("landmark_distances", "distances") for k in
              ("other dtype", "integers", "meta")} | {"distances: longer"},
    ),
    *wrong_calls(
        mds.geodesic_embed,
        {"vertices": generic(4), "faces": torch.tensor([[0, 1, 2], [0, 2, 3]])},
        fine={"vertices: integers", "vertices: other dtype", "vertices: longer", "vertices: meta",
              "faces: longer", "faces: meta"},
    ),
    *wrong_calls(
        mds.graph_distances,
        {"edge_index": torch.tensor([[0, 1], [1, 2]]), "lengths": torch.ones(2)},
        names={"edge_index": "edge_index|lengths"},
        fine=NONE | {"lengths: integers", "lengths: other dtype", "lengths: meta",
                     "edge_index: meta"},
    ),
    *wrong_calls(
        mds.tour_lengths,
        {"points": CITIES, "tours": torch.arange(7).expand(2, 1, 7)},
        names={"points": "points|tours", "tours": "points|tours"},
        fine={"points: complex", "points: integers", "points: other dtype", "points: wider",
              "points: meta", "tours: wider", "tours: meta"},
    ),
    *wrong_calls(
        ROUTER,
        {"cities": CITIES, "starts": torch.zeros(2, 1, dtype=torch.int64)},
        names={"cities": "cities|starts"},
        fine=NONE | {"cities: other dtype", "cities: meta", "starts: meta", "starts: wider"},
    ),
]  # fmt: skip


@pytest.mark.parametrize("wrong", CALLS, ids=lambda wrong: wrong.label)
def test_a_wrong_argument_gives_one_sentence_that_names_it(wrong: Wrong) -> None:
    wrong.check()


def test_results_show_shapes_and_flags():
    distances = mds.distance_embed(DISTANCES, 3)
    tours = ROUTER.solve(CITIES)
    mean = f"{float(tours.length.mean()):.4g}"
    shown = {
        "MDSResult(y=(2, 9, 3) torch.float64, clouds=2, flagged=0, group='O')": RESULT,
        "FrameSet(frames=8, y=(8, 2, 9, 3) torch.float64, clouds=2, exact=2, group='O')": FRAMES,
        f"DistanceEmbedding(y=(9, 3), stress={float(distances.stress):.3g})": distances,
        f"Tours(instances=2, tours=1, cities=7, mean length={mean})": tours,
    }
    for text, result in shown.items():
        assert repr(result) == text
