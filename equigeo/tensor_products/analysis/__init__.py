"""What products can express and what they cost: measured, counted and compared."""
