"""Data sets of labelled meshes: readers of published layouts, and generated shapes.

Everything arrives as a ``MeshDataset``; ``split_indices`` divides it by the protocols of the
literature. Unpacked and generated data are cached in ``$EQUIGEO_CACHE`` or the user's cache folder.
"""

from equigeo.datasets.articulated_shapes import articulated_shapes
from equigeo.datasets.load_mesh_folder import load_mesh_folder
from equigeo.datasets.mesh_dataset import MeshDataset
from equigeo.datasets.split_indices import split_indices

__all__ = ["MeshDataset", "articulated_shapes", "load_mesh_folder", "split_indices"]
