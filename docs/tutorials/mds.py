"""Tutorial: invariant embeddings."""

import sys

sys.path.insert(0, f"{sys.path[0]}/..")  # drawing.py lies there

# %%
# # Invariant embeddings
#
# An invariant embedding transforms the input of a network to coordinates that do not change under rotations,
# reflections, translations and scalings. Any network becomes invariant without a change of its layers.
#
# ## The mathematics in ten lines
#
# For points $x_1 \dots x_n$ with centroid $c$, let the columns of $F$ be the eigenvectors of the scatter matrix
# $\sum_i (x_i - c)(x_i - c)^T$, and $\sigma$ their size. Then
#
# $$y_i = (x_i - c)\, F / \sigma$$
#
# is classical multidimensional scaling: up to scale, it preserves distances and is invariant to motions.
# Eigenvectors are unique up to sign; the sign of each axis is chosen so that the skewness $\sum_i y_{ik}^3$ is
# positive. For symmetric clouds no equivariant rule can choose a sign. An average over all equivalent *frames*
# $F$ is exact in that case.
#
# ## A cloud and its embedding

import numpy as np
import torch
from drawing import COLORS, Drawing, blend, fit, plot, tilt
from equigeo import datasets, mds
from equigeo.points import PointNet

animals = datasets.articulated_parts(seed=0, per_class=2, faces=500)
dog = animals.meshes[animals.names.index("dog/0")].vertices.float()
turns = [torch.linalg.qr(torch.randn(3, 3)).Q for _ in range(3)]
clouds = torch.stack([(1 + k) * dog @ turn.mT + k for k, turn in enumerate(turns)])
result = mds.embed(clouds, scale="rms")
print(result)
print(f"largest difference of embeddings {(result.y - result.y[:1]).abs().max():.1e}")


def draw(drawing, points, box, color):
    """Points from one side, near ones darker."""
    turned = points.numpy() @ tilt(np.eye(3)).T
    depth = (turned[:, 2] - turned[:, 2].min()) / np.ptp(turned[:, 2])
    for point, near in sorted(
        zip(fit(turned[:, :2], box).tolist(), depth.tolist()), key=lambda p: p[1]
    ):
        drawing.circle(point, 2, blend("#e3e8ef", color, 0.3 + 0.7 * near))


drawing = Drawing(640, 330)
for number in range(3):
    draw(drawing, clouds[number], (20 + 210 * number, 20, 180, 130), COLORS[number])
    draw(drawing, result.y[number], (20 + 210 * number, 180, 180, 130), COLORS[number])
drawing.save("embedding.svg")

# %%
# ![Three poses above, their embeddings below](embedding.svg)
#
# ## Degenerate clouds
#
# A square has no preferred axis in its plane. `embed` flags such clouds, and averages over frames are exact:

square = torch.tensor([[1.0, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]])
doubtful = mds.embed(square, options=mds.EmbedOptions(fallback="ignore"))
print("degenerate:", doubtful.degenerate.tolist())
network = torch.nn.Sequential(
    torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)
)
for kind in ("joint", "harmonic", "weighted"):
    averages = []
    for turn in turns:
        frames = mds.frames(square @ turn.mT, kind=kind)
        averages.append(mds.frame_average(network, frames).mean().item())
    print(
        f"{kind:9} {len(frames.weight):2} frames, answers differ by {max(averages) - min(averages):.1e}"
    )

# %%
# `joint` requires two different eigenvalues and is not exact here. `harmonic` uses angular moments to choose
# directions in the plane. `weighted` does so too, or uses pairs of points, and its weights are continuous.
#
# ## A task: six kinds of animals, in any pose
#
# Clouds of vertices are upright in training and randomly rotated in testing. The network is a small PointNet,
# with and without the embedding.

names = sorted({name.split("/")[0] for name in animals.names})
shapes = [shape.vertices.float() for shape in animals.meshes]
labels = torch.tensor([names.index(name.split("/")[0]) for name in animals.names])


def batch(number, generator, turned):
    """Random points of each animal, with a little noise."""
    rows = []
    for shape in shapes:
        for _ in range(number):
            chosen = torch.randperm(len(shape), generator=generator)[:128]
            points = shape[chosen] + 0.01 * torch.randn(128, 3, generator=generator)
            if turned:
                points = points @ torch.linalg.qr(torch.randn(3, 3, generator=generator)).Q
            rows.append(points)
    return torch.stack(rows), labels.repeat_interleave(number)


quiet = mds.EmbedOptions(fallback="ignore")  # no warning of a cloud whose axes are in doubt
curves = {}
for name, wrap in (
    ("raw coordinates", lambda net: net),
    ("behind the embedding", lambda net: mds.Invariant(net, options=quiet)),
):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model = wrap(PointNet(len(names), widths=(32, 64, 128), hidden=(64,), dropout=0.0))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    accuracies = []
    for _ in range(60):
        points, truth = batch(2, generator, turned=False)
        optimizer.zero_grad()
        logits = model(points)
        torch.nn.functional.cross_entropy(logits, truth).backward()
        optimizer.step()
        accuracies.append((logits.argmax(-1) == truth).float().mean())
    model.eval()
    with torch.no_grad():
        shown = []
        for turned in (False, True):
            points, truth = batch(10, generator, turned)
            shown.append(100 * (model(points).argmax(-1) == truth).float().mean())
    print(f"{name:21} unturned {shown[0]:3.0f} %, turned {shown[1]:3.0f} %")
    smooth = torch.stack(accuracies).unfold(0, 5, 5).mean(-1)
    curves[name] = (range(5, 61, 5), smooth)
plot(curves, x="step", y="training accuracy").save("training.svg")

# %%
# ![Accuracy during training](training.svg)
#
# ## When to use it, and when not
#
# - Use it to make an existing network invariant: PointNet++, DGCNN, a transformer, your own.
# - Use `rep_out` for vectors and tensors: [make a point network invariant](../../howto/invariant.md).
# - Not with a single frame for clouds with exact symmetry: use `kind="weighted"` or `"anchor"`.
# - Not for crops of larger scenes, because the crop changes the axes. Use local frames or
#   [tensor products](tensor_products.md), which depend on neighborhoods only.
# - Not if outputs must be smooth in the coordinates, such as energies of molecules, because signs flip.
#   `kind="weighted"` is continuous, tensor products are smooth.
#
# ## Cost
#
# [Benchmarks](../../benchmarks.md#embeddings) lists times. An average over frames costs one forward pass of the
# network per frame.
