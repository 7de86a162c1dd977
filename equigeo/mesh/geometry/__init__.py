"""Triangle meshes, their graphs and geometric features.

A network sees a mesh as tensors: ``triangle_mesh``, ``half_edges``, ``orient``, ``surface``,
``features``, ``dual_graph``, ``primal_dual_graph``. Files are read and repaired as NumPy arrays;
``connected_components``, ``coincident_points`` and ``concatenate_ranges`` are what that needs.
"""
