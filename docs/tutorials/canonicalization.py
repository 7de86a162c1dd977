"""Tutorial: canonicalization of frozen networks."""

import sys

sys.path.insert(0, f"{sys.path[0]}/..")  # drawing.py lies there

# %%
# # Canonicalization of frozen networks
#
# A network that was trained on upright inputs fails on rotated ones. `mds.Canonicalized` moves each input back to a
# usual pose first. The network keeps its weights, and its answers become invariant. Only a small energy is trained, on
# upright inputs without labels.
#
# ## The mathematics in ten lines
#
# An energy $E$ defines the probability of each pose $g$ of an input $x$, among candidates $g_1, \dots, g_k$:
#
# $$p(g_i \mid x) = \frac{e^{-E(g_i x)}}{\sum_j e^{-E(g_j x)}}, \qquad g^* = \operatorname{argmax}_{g_i} p(g_i \mid x),$$
#
# and the answer is $f^*(x) = f(g^* x)$.
#
# Minimizing $-\log p(g_0 \mid x)$ for upright inputs, with $g_0$ the candidate nearest to the identity, makes $p$ a prior
# of the poses on which $f$ was trained ([Mondal et al. 2023](https://arxiv.org/abs/2310.01647)). The candidates of
# a rotated input are those of the input, in another order, if they form a group, or if they are computed from the input
# equivariantly, such as principal axes. The chosen pose, and so $f^*$, is then invariant, for any energy.
#
# ## A task: digits in any rotation
#
# The network is a plain CNN, trained on 500 upright digits of MNIST, rotated by at most 15 degrees. Nines are left out,
# because they are sixes upside down.

from pathlib import Path

import drawing
import torch
from equigeo import affine, datasets, mds
from equigeo.groups import SO, equidistant_rotations
from equigeo.points import PointNet
from equigeo.reps import Field, Points, Trivial
from torch import nn
from torch.nn import functional as F

folder = Path(drawing.__file__).parents[1] / "data/mnist"


def digits(part):
    """Images (digits, 1, 28, 28) in [0, 1] and labels, without nines."""
    images, labels = datasets.load_digits(folder, part)
    few = labels < 9
    return images[few, None].float() / 255, labels[few]


def train(loss, module, steps, rate):
    """Minimize a loss of random batches."""
    optimizer = torch.optim.Adam(module.parameters(), rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        schedule.step()
    module.eval().requires_grad_(False)


def turns(count, degrees):
    """Random rotations of the plane."""
    angle = torch.deg2rad(degrees * (2 * torch.rand(count, generator=generator) - 1))
    return SO(2).from_coordinates(angle[:, None].double())


def accuracy(model, inputs, labels):
    with torch.no_grad():
        return 100 * (model(inputs).argmax(-1) == labels).float().mean()


generator = torch.Generator().manual_seed(0)
rep = Field(Trivial(SO(2), 1))  # the action of rotations on images
images, labels = digits("train")
cnn = nn.Sequential(
    *(nn.Conv2d(1, 16, 5, 2, 2), nn.ReLU(), nn.Conv2d(16, 32, 5, 2, 2), nn.ReLU()),
    *(nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 9)),
)


def classification():
    rows = torch.randint(len(images), (64,), generator=generator)
    return F.cross_entropy(cnn(rep.act(turns(64, 15), images[rows])), labels[rows])


train(classification, cnn, 120, 3e-3)

# %%
# The energy is a group convolution network. Its features at the sample $h$ of SO(2) are those of the image rotated by
# $h^{-1}$, so that one pass computes the energies of all candidates. `Field` is the action on images. Rotating the
# training images by up to half the angle between candidates teaches the energy that a pose is never met exactly.


class PoseEnergy(nn.Module):
    def __init__(self):
        super().__init__()
        near, whole = (affine.KernelSpec(size, network="rbf") for size in (5, 10))
        self.lift = affine.LiftConv(SO(2), 1, 12, near)
        self.conv = affine.SeparableGroupConv(SO(2), 12, 32, whole)
        self.last = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x, samples):
        features, samples = self.lift(F.avg_pool2d(x, 2), samples)  # 10 x 10 pixels
        features, samples = self.conv(features.relu(), samples)  # one pixel
        return self.last(features[..., 0, 0].relu().mT)[..., 0]


energy, samples = PoseEnergy(), equidistant_rotations(8)


def prior():
    rows = torch.randint(len(images), (64,), generator=generator)
    return mds.pose_loss(
        energy, rep, rep.act(turns(64, 22.5), images[rows]), starts=samples
    )


train(prior, energy, 130, 1e-2)

# %%
# ## Accuracy upright and rotated
#
# The kernels are functions of the rotation, so that the trained energy also evaluates sixteen poses.

test, truth = digits("test")
rotated = rep.act(turns(len(test), 180), test)
model = mds.Canonicalized(cnn, energy, rep, starts=equidistant_rotations(16), steps=0)
for name, network in (("frozen network", cnn), ("canonicalized", model)):
    upright, moved = (accuracy(network, x, truth) for x in (test, rotated))
    print(f"{name:14} upright {upright:3.0f} %, rotated {moved:3.0f} %")
quarters = [model(rotated.rot90(k, (2, 3))) for k in range(4)]
print(
    "equal in every bit after quarter turns:", all(y.equal(quarters[0]) for y in quarters)
)
print("in doubt:", int(model.flagged(rotated).sum()), "of", len(rotated))

figure = drawing.Drawing(640, 170)
for column, x in enumerate(rotated[:8]):
    back = rep.act(model.elements(x[None])[0], x)
    for row, image in enumerate((x, back)):
        figure.image(image[0].clamp(0, 1), (12 + 78 * column, 8 + 78 * row), 70)
figure.save("digits.svg")

# %%
# ![Rotated digits above, in their canonical poses below](digits.svg)
#
# Quarter turns permute pixels and candidates, and are exact. Other rotations interpolate, and fall between the
# candidates.
#
# ## A task: clouds in any rotation
#
# The candidates of a point cloud are its principal axes in all orders and directions, 24 rotations. The energy, a
# small PointNet, chooses among them, and the result is exactly invariant. The frozen PointNet classifies furniture,
# made of boxes (middle and half sizes) in random proportions, and was trained on clouds that lean by a few degrees.

FURNITURE = {
    "chair": [(0, 0, 0, 4, 4, 0.5), (0, -4, 5, 4, 0.5, 5), (0, 0, -4, 3, 3, 4)],
    "table": [(0, 0, 4, 9, 6, 0.5), (0, 0, 0, 1.5, 1.5, 4)],
    "bed": [(0, 0, 0, 5, 10, 1.5), (0, -10, 3, 5, 0.5, 3)],
    "lamp": [(0, 0, -8, 3, 3, 0.5), (0, 0, 0, 0.5, 0.5, 8), (0, 0, 8, 2.5, 2.5, 2)],
    "monitor": [(0, 0, 3, 6, 0.5, 4), (0, 0, -2, 0.5, 0.5, 2), (0, 0.5, -4, 3, 2, 0.5)],
    "sofa": [
        (0, 0, 0, 10, 4, 2),
        (0, -4, 3, 10, 1, 3),
        (9, 0, 2, 1, 4, 2),
        (-9, 0, 2, 1, 4, 2),
    ],
}


def clouds(count, points=64):
    """Centered clouds (count, points, 3) of random furniture, z upwards, and its kinds."""
    kinds = torch.randint(len(FURNITURE), (count,), generator=generator)
    rows = []
    for kind in kinds.tolist():
        boxes = torch.tensor(list(FURNITURE.values())[kind])
        boxes = boxes[torch.randint(len(boxes), (points,), generator=generator)]
        inside = 2 * torch.rand(points, 3, generator=generator) - 1
        size = torch.exp(0.15 * torch.randn(3, generator=generator))
        rows.append(0.1 * size * (boxes[:, :3] + inside * boxes[:, 3:]))
    x = torch.stack(rows)
    return x - x.mean(1, keepdim=True), kinds


def lean(x):
    """Rotate clouds by a few degrees."""
    angles = 0.15 * torch.randn(len(x), 3, generator=generator).double()
    return motions.act(SO(3).from_coordinates(angles)[:, None], x)


motions = Points(SO(3))
pointnet = PointNet(len(FURNITURE), widths=(32, 64, 128), hidden=(64,), dropout=0.0)
energy = nn.Sequential(
    PointNet(1, widths=(16, 32, 64), hidden=(32,), dropout=0.0), nn.Flatten(0)
)


def cloud_classification():
    x, kinds = clouds(32)
    return F.cross_entropy(pointnet(lean(x)), kinds)


train(cloud_classification, pointnet, 80, 3e-3)
train(
    lambda: mds.pose_loss(energy, motions, clouds(16)[0], starts="frames"), energy, 80, 1e-2
)
model = mds.Canonicalized(pointnet, energy, motions, starts="frames", steps=0)
test, truth = clouds(240)
rotated = motions.act(SO(3).haar(len(test), generator=generator)[:, None], test)
for name, network in (("frozen network", pointnet), ("canonicalized", model)):
    upright, moved = (accuracy(network, x, truth) for x in (test, rotated))
    print(f"{name:14} upright {upright:3.0f} %, rotated {moved:3.0f} %")
change = (model(test) - model(rotated)).abs().max() / model(test).abs().max()
print(f"largest relative change of logits {change:.0e}")

# %%
# `Points(Affine(SO(3)))` also removes translations, and `O(3)` reflections. With `steps` the energy is minimized from
# each frame by Newton's method, which is exact under the same groups and costs three gradients per step and frame.
#
# ## When to use it, and when not
#
# - Use it for networks whose weights must not change, and whose training inputs had a usual pose.
# - Use [an embedding](mds.md) without a prior if the network can be trained: it costs one pass and no energy.
# - Not if the pose determines the class, as of six and nine.
# - Frames are a good start only if principal axes are near the usual axes, as of furniture. The frozen network sees the
#   angle between them. Where it is large, train the network with such angles.
# - Both poses of a symmetric input have the same energy: `flagged` marks it. If the network gives different answers
#   in them, average over [frames](../../howto/invariant.md#which-kind).
#
# ## Cost
#
# An energy that reads `samples` takes one pass for all poses. Any other network takes one pass per pose, on resampled
# images or rotated clouds. The frozen network takes one.
