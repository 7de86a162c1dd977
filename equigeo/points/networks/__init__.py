"""Networks of points: PointNet, PointNet++, DGCNN, point transformer."""
