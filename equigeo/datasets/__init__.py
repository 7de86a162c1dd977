"""Data sets: readers of published layouts, and generators.

Meshes arrive as a ``MeshDataset``, which ``split_indices`` splits by the protocols of the
literature, or with labelled parts as a ``SegmentedMeshDataset``; point clouds as ``PointClouds``;
images as tensors of bytes, of which ``AffNIST`` and ``HomNIST`` draw transformed versions on
demand; instances of the travelling-salesman problem as ``TSPInstance`` or tensors of cities, with
their optimal tours; structures of atoms as ``AtomicFrames`` in eV and angstrom, which
``load_atomic_split`` gives as the parts that they are published with. Unpacked, generated and
solved data are cached in ``$EQUIGEO_CACHE`` or the user's cache folder. ``open`` loads a published
data set by the name under which ``equigeo data`` fetches it.
"""

from equigeo.datasets.atoms.atomic_frame import AtomicFrame
from equigeo.datasets.atoms.atomic_frames import AtomicFrames
from equigeo.datasets.atoms.atomic_split import AtomicSplit, load_atomic_split
from equigeo.datasets.atoms.load_mlearn import load_mlearn
from equigeo.datasets.atoms.load_qm9 import load_qm9
from equigeo.datasets.atoms.load_rmd17 import load_rmd17
from equigeo.datasets.atoms.read_extxyz import read_extxyz
from equigeo.datasets.atoms.write_extxyz import format_extxyz
from equigeo.datasets.digits.affnist import AffNIST
from equigeo.datasets.digits.centred import centred
from equigeo.datasets.digits.digit_canvas import digit_canvas
from equigeo.datasets.digits.homnist import HomNIST
from equigeo.datasets.digits.load_digits import load_digits
from equigeo.datasets.digits.load_mnist import load_mnist
from equigeo.datasets.digits.read_idx import read_idx
from equigeo.datasets.digits.read_image import read_image
from equigeo.datasets.digits.transformed_digits import TransformedDigits
from equigeo.datasets.engraved.engraved_cubes import engraved_cubes
from equigeo.datasets.load_cloud_folder import load_cloud_folder, normalized_cloud
from equigeo.datasets.load_mesh_folder import load_mesh_folder
from equigeo.datasets.load_modelnet_points import load_modelnet_points
from equigeo.datasets.mesh_dataset import MeshDataset
from equigeo.datasets.point_clouds import PointClouds
from equigeo.datasets.read_cloud import read_cloud
from equigeo.datasets.registry.open_data_set import open
from equigeo.datasets.segmentation.edges_in_order import OrderedEdges, edges_in_order
from equigeo.datasets.segmentation.load_segmentation_folder import load_segmentation_folder
from equigeo.datasets.segmentation.segmented_mesh_dataset import EdgeLabels, SegmentedMeshDataset
from equigeo.datasets.shapes.articulated_parts import articulated_parts
from equigeo.datasets.shapes.articulated_shapes import articulated_shapes
from equigeo.datasets.split_indices import split_indices
from equigeo.datasets.tours.load_tsplib import load_tsplib
from equigeo.datasets.tours.optimal_lengths import optimal_lengths
from equigeo.datasets.tours.optimal_tour import optimal_tour
from equigeo.datasets.tours.read_tsplib import read_tsplib
from equigeo.datasets.tours.tsp_instance import TSPInstance
from equigeo.datasets.tours.uniform_cities import uniform_cities

__all__ = [
    "AffNIST",
    "AtomicFrame",
    "AtomicFrames",
    "AtomicSplit",
    "EdgeLabels",
    "HomNIST",
    "MeshDataset",
    "OrderedEdges",
    "PointClouds",
    "SegmentedMeshDataset",
    "TSPInstance",
    "TransformedDigits",
    "articulated_parts",
    "articulated_shapes",
    "centred",
    "digit_canvas",
    "edges_in_order",
    "engraved_cubes",
    "format_extxyz",
    "load_atomic_split",
    "load_cloud_folder",
    "load_digits",
    "load_mesh_folder",
    "load_mlearn",
    "load_mnist",
    "load_modelnet_points",
    "load_qm9",
    "load_rmd17",
    "load_segmentation_folder",
    "load_tsplib",
    "normalized_cloud",
    "open",
    "optimal_lengths",
    "optimal_tour",
    "read_cloud",
    "read_extxyz",
    "read_idx",
    "read_image",
    "read_tsplib",
    "split_indices",
    "uniform_cities",
]


def __dir__() -> list[str]:
    return __all__
