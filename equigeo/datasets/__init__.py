"""Data sets: readers of published layouts, and generators.

``load`` loads a published data set by the name under which ``equigeo data`` fetches it. Unpacked,
generated and solved data are cached in ``$EQUIGEO_CACHE`` or the user's cache folder.
"""

from equigeo._core.deprecation import Renamed, private_names, renamed
from equigeo.datasets.atoms.extxyz import format_extxyz, read_extxyz
from equigeo.datasets.atoms.frames import AtomicFrame, AtomicFrames
from equigeo.datasets.atoms.published import AtomicSplit, load_atomic_split
from equigeo.datasets.clouds import PointClouds, load_cloud_folder, load_modelnet_points, read_cloud
from equigeo.datasets.digits.readers import load_digits, read_image
from equigeo.datasets.digits.transformed import AffNIST, HomNIST, digit_canvas
from equigeo.datasets.dynamics import MeshTrajectories, mesh_dynamics
from equigeo.datasets.engraved_cubes import engraved_cubes
from equigeo.datasets.meshes import MeshDataset, load_mesh_folder, split_indices
from equigeo.datasets.registry.access import load
from equigeo.datasets.regression import MeshRegressionDataset, ellipsoids, load_regression_folder
from equigeo.datasets.segmentation.dataset import EdgeLabels, SegmentedMeshDataset
from equigeo.datasets.segmentation.edges import edges_in_order
from equigeo.datasets.segmentation.folder import load_segmentation_folder
from equigeo.datasets.shapes.articulated import articulated_shapes
from equigeo.datasets.shapes.pairs import articulated_pairs
from equigeo.datasets.shapes.parts import articulated_parts
from equigeo.datasets.tours import TSPInstance, load_tsplib, optimal_lengths, uniform_cities

__all__ = [
    "AffNIST",
    "AtomicFrame",
    "AtomicFrames",
    "AtomicSplit",
    "EdgeLabels",
    "HomNIST",
    "MeshDataset",
    "MeshRegressionDataset",
    "MeshTrajectories",
    "PointClouds",
    "SegmentedMeshDataset",
    "TSPInstance",
    "articulated_pairs",
    "articulated_parts",
    "articulated_shapes",
    "digit_canvas",
    "edges_in_order",
    "ellipsoids",
    "engraved_cubes",
    "format_extxyz",
    "load",
    "load_atomic_split",
    "load_cloud_folder",
    "load_digits",
    "load_mesh_folder",
    "load_modelnet_points",
    "load_regression_folder",
    "load_segmentation_folder",
    "load_tsplib",
    "mesh_dynamics",
    "optimal_lengths",
    "read_cloud",
    "read_extxyz",
    "read_image",
    "split_indices",
    "uniform_cities",
]


def __dir__() -> list[str]:
    return __all__


_PRIVATE = {
    "OrderedEdges": ("equigeo.datasets.segmentation.edges", "edges_in_order"),
    "TransformedDigits": ("equigeo.datasets.digits.transformed", "AffNIST or HomNIST"),
    "centred": ("equigeo.datasets.digits.transformed", "torch.nn.functional.pad"),
    "load_mlearn": ("equigeo.datasets.atoms.published", "load or load_atomic_split"),
    "load_mnist": ("equigeo.datasets.digits.readers", "load or load_digits"),
    "load_qm9": ("equigeo.datasets.atoms.published", "load or load_atomic_split"),
    "load_rmd17": ("equigeo.datasets.atoms.published", "load or load_atomic_split"),
    "normalized_cloud": ("equigeo.datasets.clouds", "load_cloud_folder"),
    "optimal_tour": ("equigeo.datasets.tours", "optimal_lengths"),
    "read_idx": ("equigeo.datasets.digits.readers", "load or load_digits"),
    "read_tsplib": ("equigeo.datasets.tours", "load or load_tsplib"),
}
__getattr__ = renamed(
    __name__, {"open": Renamed("load", since="0.3"), **private_names("0.3", _PRIVATE)}
)
