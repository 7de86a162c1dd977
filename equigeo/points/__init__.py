"""What point clouds share: rows of clouds, neighbours, farthest point sampling, networks."""
