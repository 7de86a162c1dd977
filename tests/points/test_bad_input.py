import torch

from equigeo import points
from tests.wrong_inputs import Wrong, wrong_calls

CLOUD = torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(0))
MASK = torch.ones(2, 9, dtype=torch.bool)
CENTERS = CLOUD[:, :4]
NONE = {"mask: None", "centers: None", "origin: None", "batch: None", "ptr: None"}
ROWS, BATCH = CLOUD[0], torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 1])

CALLS: list[Wrong] = [
    *wrong_calls(
        lambda points_, mask, origin: points.farthest_point_sampling(
            points_, 3, mask, origin=origin
        ),
        {"points_": CLOUD, "mask": MASK, "origin": CLOUD[:, 0]},
        names={"points_": "points|mask|origin"},
        fine=NONE
        | {"points_: meta", "points_: other dtype"}
        | {f"origin: {kind}" for kind in ("integers", "other dtype", "meta", "complex")}
        | {"mask: meta"},
    ),
    *wrong_calls(
        lambda points_, mask, centers: points.nearest_neighbors(points_, 3, mask, centers=centers),
        {"points_": CLOUD, "mask": MASK, "centers": CENTERS},
        names={"points_": "points|mask|centers"},
        fine=NONE
        | {"points_: meta", "points_: other dtype", "centers: other dtype", "centers: meta"}
        | {"centers: longer", "mask: meta"},
    ),
    *wrong_calls(
        lambda points_, centers: points.radius_neighbors(points_, 1.0, centers=centers),
        {"points_": CLOUD, "centers": CENTERS},
        names={"points_": "points|centers"},
        fine=NONE
        | {f"{name}: {kind}" for name in ("points_", "centers") for kind in
           ("meta", "other dtype", "longer", "one axis more")},
    ),
    *wrong_calls(
        points.gather_rows,
        {"rows": CLOUD, "indices": torch.zeros(2, 4, dtype=torch.int64)},
        fine={"rows: complex", "rows: integers", "rows: other dtype", "rows: wider", "rows: meta"}
        | {"indices: wider", "indices: meta"},
    ),
    *wrong_calls(
        lambda points_, batch: points.pad_clouds(points_, batch=batch),
        {"points_": ROWS, "batch": BATCH},
        names={"points_": "points|batch", "batch": "batch|ptr"},
        fine={
            f"points_: {kind}" for kind in ("complex", "integers", "other dtype", "wider", "meta")
        },
    ),
    *wrong_calls(  # the check of the base class of all networks
        points.PointNet(5).eval(),
        {"points": CLOUD, "mask": MASK},
        names={"points": "points|mask"},
        fine=NONE | {"mask: meta"},
    ),
]  # fmt: skip


def test_a_wrong_argument_gives_one_sentence_that_names_it():
    for wrong in CALLS:
        wrong.check()
