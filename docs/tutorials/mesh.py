"""Tutorial: mesh networks."""

import sys

sys.path.insert(0, f"{sys.path[0]}/..")  # drawing.py lies there

# %%
# # Mesh networks
#
# Networks of this family use the adjacency of faces instead of distances between points. They read two graphs
# of a triangle mesh: the *primal* graph, whose nodes are faces, and the *dual* graph, whose nodes are pairs of
# adjacent faces. They classify meshes, label faces, and merge faces by learned attention.
#
# ## The mathematics in ten lines
#
# The features of a face $i$ are a weighted sum over its adjacent faces $j$, with attention computed from the
# dual feature $f_{ij}$ of the pair:
#
# $$x_i' = \sigma\Bigl(\sum_{j \sim i} \alpha_{ij}\, W x_j\Bigr), \qquad
#   \alpha_{ij} = \operatorname{softmax}_j\bigl(a^T W' f_{ij}\bigr).$$
#
# Dual features are updated likewise on the dual graph. *Pooling* contracts the pairs with the largest
# attention: their faces become one cluster, features are averaged, and the graphs shrink. Inputs are
# lengths, areas and angles of neighborhoods, relative to the size of the mesh. They are invariant to rotations,
# reflections, translations and scalings.
#
# ## A mesh and its graphs

import numpy as np
import torch
from drawing import COLORS, Drawing, blend, plot, tilt
from equigeo import datasets, mds, mesh

animals = datasets.articulated_parts(seed=0, per_class=2, faces=500)
horse = animals.meshes[animals.names.index("horse/0")]
graph = mesh.PrimalDualGraph.from_mesh(horse)
print(horse)
print(graph)

# %%
# `mesh.load_mesh` reads files and repairs common defects: see
# [classify and segment your meshes](../../howto/meshes.md).
#
# ## Two convolutions and a pooling

torch.manual_seed(0)
conv = mesh.PrimalDualConv(
    (graph.x_primal.shape[1], graph.x_dual.shape[1]), (16, 16), self_term=True
)
x_primal, x_dual, attention = conv(graph, graph.x_primal, graph.x_dual)
pooled, log = mesh.EdgePool(keep=0.5, max_cluster_size=10)(
    graph.with_features(x_primal, x_dual), attention
)
print(pooled)
graph_before, faces, _ = mesh.unpool(log, pooled.x_primal, pooled.x_dual, torch.zeros(16))
print(faces.shape)  # every face gets the feature of its cluster


def view(shape):
    """Look along the third principal axis, feet down."""
    axes = mds.embed(shape.vertices, group="SO").frame.mT.numpy()
    return tilt(axes * [[1], [-1], [-1]])


drawing = Drawing(640, 240)
random = np.random.default_rng(0).permutation(pooled.num_primal)
colors = [blend(COLORS[random[c] % 8], "#ffffff", 0.35) for c in log.cluster.tolist()]
plain = ["#9db8d9"] * horse.num_faces
for left, shades in ((20, plain), (330, colors)):
    drawing.mesh(
        horse.vertices.numpy(),
        horse.faces.numpy(),
        shades,
        (left, 20, 290, 200),
        view(horse),
    )
drawing.save("pooling.svg")

# %%
# ![A horse of 500 faces, and its clusters after pooling](pooling.svg)
#
# ## A task: parts of animals
#
# Generated animals have a body part as the label of each face. A segmenter is trained on one animal of each
# kind, and tested on another animal in another pose. This example takes seconds;
# [benchmarks](../../benchmarks.md#parts-of-generated-animals) has the accuracy of the preset after a full
# training.

train = [i for i, name in enumerate(animals.names) if name.endswith("0")]
test = [i for i, name in enumerate(animals.names) if name.endswith("1")]
model = mesh.PrimalDualSegmenter.preset("default", num_classes=len(animals.classes))
graphs = [model.graph(shape) for shape in animals.meshes]
batch = mesh.PrimalDualGraph.batch([graphs[i] for i in train])
labels = torch.cat([animals.labels[i] for i in train])

optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
losses = []
for _ in range(35):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(batch), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"loss {losses[0]:.2f} to {losses[-1]:.2f}")

# %%
# After so few steps, the running statistics of BatchNorm lag behind the weights and are recomputed, as
# `equigeo train` does automatically.

for layer in model.modules():
    if hasattr(layer, "reset_running_stats"):
        layer.reset_running_stats()
        layer.momentum = None  # the plain average
with torch.no_grad():
    for _ in range(3):
        model(batch)
    model.eval()
    predictions = {i: model(graphs[i]).argmax(-1) for i in test}
right = torch.cat([predictions[i] == animals.labels[i] for i in test]).float().mean()
print(f"faces of other animals: {100 * right:.0f} % right, from six training meshes")

plot({"training": (range(1, 36), losses)}, x="step", y="cross-entropy", marks=False).save(
    "loss.svg"
)
drawing = Drawing(640, 420)
for row, parts in enumerate((animals.labels, predictions)):
    drawing.text(
        (10, 20 + 210 * row), ["true", "predicted"][row], anchor="start", bold=True
    )
    for column, name in enumerate(("dog/1", "horse/1", "dinosaur/1")):
        number = animals.names.index(name)
        shape = animals.meshes[number]
        colors = [blend(COLORS[part], "#ffffff", 0.25) for part in parts[number].tolist()]
        box = (10 + 210 * column, 30 + 205 * row, 195, 165)
        drawing.mesh(shape.vertices.numpy(), shape.faces.numpy(), colors, box, view(shape))
drawing.save("parts.svg")

# %%
# ![Loss while training](loss.svg)
#
# ![True and predicted parts of three test animals](parts.svg)
#
# No prediction changes under rotations, although none were used in training:

shape = animals.meshes[test[0]]
turn = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64)).Q
moved = mesh.TriangleMesh(3 * shape.vertices @ turn.mT + 1, shape.faces)
with torch.no_grad():
    print(torch.equal(model(model.graph(moved)).argmax(-1), predictions[test[0]]))

# %%
# ## When to use it, and when not
#
# - Use it for meshes of 500 to a million faces whose class or parts depend on shape: scans, CAD, organs,
#   animals. Meshes may be open, in pieces, or with edges of more than two faces.
# - Simplify first: the presets were tuned at 500 to 1,000 faces, and time grows with the number of faces.
# - Not for clouds without faces: use [embeddings](mds.md) or [affine convolutions](affine.md).
# - Not if the orientation matters, such as the top of an object: inputs are invariant to it.
# - `PrimalDualFieldConv` reads and returns vectors and tensors on faces, see
#   [one vector field](../../one_field.md).
#
# ## Cost
#
# Forward and backward take 16 to 31 microseconds per face on one thread, or a million faces in 31 s and 8.1 GiB:
# see [large meshes](../../benchmarks.md#large-meshes).
