"""Declaration, checks and loading of ops."""
