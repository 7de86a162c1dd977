"""Tours: training by reinforcement, gaps to shortest tours, transfer."""
