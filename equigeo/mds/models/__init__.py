"""Networks of point clouds that need an embedding."""
