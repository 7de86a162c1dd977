"""Tutorial: tensor products."""

import sys

sys.path.insert(0, f"{sys.path[0]}/..")  # drawing.py lies there

# %%
# # Tensor products
#
# A tensor product combines two equivariant features into equivariant features. A scalar times a vector
# is a vector; two vectors combine to a scalar (dot product), a pseudovector (cross product) and a tensor of
# degree 2. Networks for molecules and crystals (NequIP, MACE, Allegro) multiply the features of an atom by
# spherical harmonics of the directions to its neighbors.
#
# ## The mathematics in ten lines
#
# Under a rotation, features of degree $l$ have $2l + 1$ components and transform by the matrix $D^l$. The
# product of degrees $l_1$ and $l_2$ contains each degree from $|l_1 - l_2|$ to $l_1 + l_2$ once:
#
# $$z^{l_3}_c = \sum_{a b} C^{l_1 l_2 l_3}_{a b c}\, x^{l_1}_a\, y^{l_2}_b .$$
#
# Symmetry determines the coefficients $C$ up to a factor, and each *path* $(l_1, l_2, l_3)$ has a learned
# weight. *Clebsch–Gordan* products compute all paths separately. *Gaunt* products multiply functions on
# the sphere,
#
# $$\sum_c z_c Y_c(r) = \Bigl(\sum_a x_a Y_a(r)\Bigr)\Bigl(\sum_b y_b Y_b(r)\Bigr),$$
#
# which sums all paths of a degree with fixed factors. This is cheaper for large $l$, but excludes paths whose
# degrees have an odd sum, such as the cross product.
#
# ## A product
#
# The product of two vectors, `1o` in e3nn's notation, has three parts: the dot product `0e`, the cross
# product `1e`, and a tensor of degree two, `2e`. Coefficients have unit norm, which explains the factor of the
# dot product.

import torch
from equigeo import tensor_products as tp
from equigeo.testing import equivariance_error

x, y = torch.randn(2, 5, 3, dtype=torch.float64)
product = tp.FullTensorProduct("1o", "1o").double()
z = product(x, y)
print(product.irreps_out, tuple(z.shape))
print(z[:, 0] / (x * y).sum(-1))  # one over the root of three
print(f"equivariance error {equivariance_error(product, inputs=[x, y]):.1e}")

# %%
# ## Paths and cost of a product
#
# `tp.compare` builds every product of features of all degrees up to a largest one (`"mimo"`) and measures
# it. The degrees of freedom count the paths with independent weights; cheaper products have fewer.
# [Reproduce "The Price of Freedom"](../../howto/price_of_freedom.md) runs the full comparison.

from drawing import plot

degrees = range(1, 7)
work, freedom = {}, {}
for lmax in degrees:
    for row in tp.compare(lmax, "mimo", batch=20, repetitions=1).rows:
        if row.product in ("full all", "gaunt grid", "matrix"):
            work.setdefault(row.product, []).append(row.multiply_adds)
            freedom.setdefault(row.product, []).append(row.degrees_of_freedom)
for name, values in freedom.items():
    print(f"{name:10} degrees of freedom {values}")

curves = {name: (degrees, values) for name, values in work.items()}
plot(curves, x="largest degree", y="multiply–accumulates", log_y=True).save("cost.svg")

# %%
# ![Cost of products by largest degree](cost.svg)
#
# ## A task: mirror images
#
# Two of the eight Tetris pieces are mirror images of each other. A network is trained on randomly rotated
# pieces. To distinguish the mirror images, it needs the pseudovector of two vectors, so with Gaunt products
# alone it classifies at most seven of eight pieces. `gaunt+curl` adds the missing paths.

from equigeo.examples.tetris import tetris_pieces, train_tetris

curves = {}
for name in ("full", "gaunt", "gaunt+curl"):
    result = train_tetris(name, steps=150)
    with torch.no_grad():
        predicted = result.model(tetris_pieces()).argmax(-1).tolist()
    right = sum(label == piece for piece, label in enumerate(predicted))
    print(f"{name:11} {right} of 8")
    smooth = torch.tensor(result.accuracies).unfold(0, 10, 10).mean(-1)
    curves[name] = (range(10, 151, 10), 8 * smooth)
plot(curves, x="step", y="pieces told apart").save("tetris.svg")

# %%
# ![Correctly classified pieces during training](tetris.svg)
#
# ## Messages on a graph
#
# `ChannelwiseConv` gathers source features, multiplies them by spherical harmonics of the edge directions with
# weights per edge, and sums at targets, without storing messages:

from equigeo.graphs import EdgeIndex, radius_graph

points = torch.rand(500, 3)
graph = EdgeIndex.from_edges(radius_graph(points, 0.3), num_sources=500, num_targets=500)
source, target = graph.edge_index
edge_attr = tp.spherical_harmonics(
    "0e + 1o + 2e", points[target] - points[source], True, "component"
)
conv = tp.ChannelwiseConv("32x0e + 32x1o", "0e + 1o + 2e", "0e + 1o + 2e")
weights = torch.randn(graph.num_edges, conv.weight_numel)
print(graph.num_edges, conv(torch.randn(500, 128), graph, edge_attr, weights).shape)

# %%
# ## When to use each product
#
# | product | suitable for | not suitable for |
# |---|---|---|
# | `ChannelwiseTensorProduct`, `ChannelwiseConv` | messages of NequIP and MACE; the default | mixing of channels inside the product |
# | `FullyConnectedTensorProduct` | few channels, most expressive | many channels: weights grow with their cube |
# | `SymmetricContraction` | products of a feature with itself to degree 3 and 4 (MACE) | |
# | `GauntTensorProduct` | degrees of 6 and more without chirality | small degrees, where paths are as fast |
# | `tp.make("gaunt+curl", ...)` | degrees of 6 and more with chirality | |
# | `MatrixTensorProduct` | low cost, both parities at once | separate weights per path |
#
# Use tensor products if outputs are vectors or tensors, or if data are scarce and angles matter
# (energies, forces, dipoles). For shape classification with scalar features, an
# [embedding](mds.md) or a [mesh network](mesh.md) costs less.
#
# ## Cost
#
# A channelwise product of 32 channels up to degree 2 is limited by memory bandwidth.
# [Benchmarks](../../benchmarks.md#tensor-products) compares with e3nn, cuEquivariance, NequIP and MACE.
# Existing e3nn models can be [accelerated](../../howto/accelerate.md) without rewriting them.
