"""What products cost, reach and couple."""
