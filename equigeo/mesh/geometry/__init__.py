"""Triangle meshes, their graphs, and what is measured on them."""
