"""Data sets: readers of published layouts, and generators.

Meshes arrive as a ``MeshDataset``, which ``split_indices`` divides by the protocols of the
literature; point clouds as ``PointClouds``; images as tensors of bytes, of which ``AffNIST`` and
``HomNIST`` draw transformed versions on demand. Unpacked and generated data are cached in
``$EQUIGEO_CACHE`` or the user's cache folder.
"""

from equigeo.datasets.digits.affnist import AffNIST
from equigeo.datasets.digits.centred import centred
from equigeo.datasets.digits.homnist import HomNIST
from equigeo.datasets.digits.load_digits import load_digits
from equigeo.datasets.digits.load_mnist import load_mnist
from equigeo.datasets.digits.read_idx import read_idx
from equigeo.datasets.digits.transformed_digits import TransformedDigits
from equigeo.datasets.load_mesh_folder import load_mesh_folder
from equigeo.datasets.load_modelnet_points import load_modelnet_points
from equigeo.datasets.mesh_dataset import MeshDataset
from equigeo.datasets.point_clouds import PointClouds
from equigeo.datasets.shapes.articulated_shapes import articulated_shapes
from equigeo.datasets.split_indices import split_indices

__all__ = [
    "AffNIST",
    "HomNIST",
    "MeshDataset",
    "PointClouds",
    "TransformedDigits",
    "articulated_shapes",
    "centred",
    "load_digits",
    "load_mesh_folder",
    "load_mnist",
    "load_modelnet_points",
    "read_idx",
    "split_indices",
]
