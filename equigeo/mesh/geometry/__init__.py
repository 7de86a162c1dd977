"""Triangle meshes, their graphs and geometric features."""
