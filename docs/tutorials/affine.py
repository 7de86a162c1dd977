"""Tutorial: affine convolutions."""

import sys

sys.path.insert(0, f"{sys.path[0]}/..")  # drawing.py lies there

# %%
# # Affine convolutions
#
# A convolution is equivariant to translations of a pattern. A *group* convolution is also equivariant to other
# transformations, here to rotations, stretches and shears: the group is
# $\mathbb{R}^n \rtimes H$ with $H$ = SO(n), SL(n) or GL+(n), n = 2 or 3, on images, volumes and clouds.
#
# ## The mathematics in ten lines
#
# Features are functions $f(x, h)$ of position and group element. A *lifting convolution* correlates an image with
# transformed copies of a kernel; a *group convolution* does the same with features on the group:
#
# $$(f \star k)(x, h) = \int_H \int_{\mathbb{R}^n} f(y, g)\; k\bigl(h^{-1}(y - x),\; h^{-1} g\bigr)\;
#   \frac{dy}{|\det h|}\, dg .$$
#
# Transforming the input by a group element transforms the output. $H$ is not compact, so the integral covers a
# window of stretches, by quadrature on samples $g_1 \dots g_N$. Kernels are evaluated in coordinates of the polar
# decomposition: a rotation times the exponential of a symmetric matrix. Windows shrink from layer to layer, as
# the image does in a valid convolution.
#
# ## Layers
#
# This example uses 7 x 7 stretches of SL(2) times 8 rotations as samples. Layers accept and return features
# together with their samples.

import math

import torch
from drawing import Drawing, plot
from equigeo import affine
from equigeo.groups import SL, equidistant_rotations, grid_stretches, multiply_samples

fine = multiply_samples(grid_stretches(SL(2), 1.2, 7), equidistant_rotations(8))
coarse = multiply_samples(grid_stretches(SL(2), 0.4, 3), equidistant_rotations(8))
spec = affine.KernelSpec(5, network="siren", stretch_reach=0.8)
lift = affine.LiftConv(SL(2), 1, 8, spec, padding=2)
conv = affine.SeparableGroupConv(SL(2), 8, 16, spec, padding=2)
with torch.no_grad():
    features, samples = lift(torch.rand(2, 1, 20, 20), fine)
    print(tuple(features.shape), samples)
    features, samples = conv(features, samples, coarse)
    print(tuple(features.shape), samples)
    print(tuple(affine.GroupPool("max")(features, samples).shape))

# %%
# If a window is too small for the next kernel, a `WindowWarning` states by how much. More samples do not
# remove this error.
#
# ## Equivariance is measured
#
# The quadrature error decreases quickly with the number of samples on a grid. The plot shows the relative change
# of the outputs of one SL(2) convolution under stretches of 0.1 and 0.6, as recorded in
# `bench/results/affine_equivariance.json`:

numbers = (392, 972, 2704)
curves = {
    "stretch 0.1": (numbers, (9.1e-4, 1.7e-5, 5.6e-8)),
    "stretch 0.6": (numbers, (3.9e-3, 2.8e-4, 7.8e-6)),
}
plot(curves, x="samples", y="relative change", log_x=True, log_y=True).save("error.svg")

# %%
# ![Equivariance error by number of samples](error.svg)
#
# ## Frames instead of samples
#
# `MomentFrame` normalizes an image by the centroid and the covariance of its brightness, which reduces an
# affine map to a rotation.


def draw(digit, linear, size=40):
    """Draw a digit of strokes, moved by a linear map."""
    strokes = {
        "1": [[(0.0, -0.8), (0.0, 0.8), (-0.35, 0.45)]],
        "4": [[(0.35, -0.8), (0.35, 0.8), (-0.5, -0.2), (0.6, -0.2)]],
        "7": [[(-0.5, 0.75), (0.5, 0.75), (-0.1, -0.75)]],
    }[digit]
    axis = torch.linspace(-1.7, 1.7, size)
    pixels = torch.stack(torch.meshgrid(-axis, axis, indexing="ij"), -1).flip(-1)
    back = pixels @ torch.linalg.inv(linear).mT
    distance = torch.full((size, size), 9.0)
    for line in strokes:
        points = torch.tensor(line)
        for a, b in zip(points, points[1:]):
            along = ((back - a) @ (b - a) / (b - a).square().sum()).clamp(0, 1)
            distance = torch.minimum(
                distance, (back - a - along[..., None] * (b - a)).norm(dim=-1)
            )
    return torch.sigmoid((0.15 - distance) / 0.04)[None, None]


def random_map(generator, turn=math.pi):
    """A rotation, a stretch and a shear."""
    angle, stretch, shear = (2 * torch.rand(3, generator=generator) - 1).tolist()
    c, s = math.cos(turn * angle), math.sin(turn * angle)
    shape = torch.tensor(
        [[math.exp(0.25 * stretch), 0.5 * shear], [0.0, math.exp(-0.25 * stretch)]]
    )
    return torch.tensor([[c, -s], [s, c]]) @ shape


generator = torch.Generator().manual_seed(4)
frame = affine.MomentFrame(size=40, extent=3.0)
drawing = Drawing(640, 225)
for column in range(6):
    image = draw("147"[column // 2], random_map(generator))
    drawing.image(image[0, 0], (12 + 104 * column, 12), 96)
    drawing.image(frame(image)[0, 0], (12 + 104 * column, 118), 96)
drawing.save("frames.svg")

# %%
# ![Digits under affine maps: originals above, normalized by their frames below](frames.svg)
#
# ## A task: transformed digits, trained on upright ones
#
# `AffineResNet.preset("default")` combines a frame with convolutions over the remaining rotations. It is trained
# on upright drawings only and tested on affinely transformed drawings, together with a plain convolutional
# network of similar size.

torch.manual_seed(0)
upright = torch.cat(
    [draw(d, random_map(generator, turn=0.1), 28) for d in "147" for _ in range(8)]
)
labels = torch.arange(3).repeat_interleave(8)
moved = torch.cat([draw(d, random_map(generator), 28) for d in "147" for _ in range(20)])
truth = torch.arange(3).repeat_interleave(20)


def plain_network():
    """Three convolutions."""
    layers = []
    for before, after in ((1, 16), (16, 32), (32, 64)):
        layers += [
            torch.nn.Conv2d(before, after, 3, 2, 1),
            torch.nn.BatchNorm2d(after),
            torch.nn.ReLU(),
        ]
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(64 * 16, 3))


for name, model in (
    ("plain", plain_network()),
    ("AffineResNet", affine.AffineResNet.preset("default", num_classes=3)),
):
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(25):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(upright), labels).backward()
        optimizer.step()
    for layer in model.modules():  # statistics of BatchNorm for the final weights alone
        if hasattr(layer, "reset_running_stats"):
            layer.reset_running_stats()
            layer.momentum = None  # the plain average
    with torch.no_grad():
        for _ in range(4):
            model(upright)
        model.eval()
        seen, unseen = (
            (model(x).argmax(-1) == y).float().mean()
            for x, y in ((upright, labels), (moved, truth))
        )
    print(f"{name:13} upright {100 * seen:3.0f} %, moved {100 * unseen:3.0f} %")

# %%
# [Benchmarks](../../benchmarks.md#digits-moved-by-affine-maps) has the accuracy of the same preset trained on
# centered MNIST and tested on MNIST under affine maps from the ranges of affNIST.
#
# ## When to use it, and when not
#
# - Use it for single objects on a plain background under rotations, stretches, shears or changes of the
#   viewpoint: characters, parts, particles, micrographs.
# - `AffinePointNet` does the same for clouds; presets `default` (rotations, scales), `SO`, `GLPlus`.
# - Not for cluttered scenes, because the frame depends on the whole image. Use the layers without the frame.
# - Not if the orientation determines the class, as for six and nine. Choose a smaller group.
# - For clouds under rotations and translations only, an [embedding](mds.md) is simpler and cheaper.
#
# ## Cost
#
# A group convolution costs one convolution per sample. 392 samples of SL(2) are slow on CPUs. The frame reduces
# them to 12, and the cost of an image of 28 pixels to 0.1 GFLOP.
