"""What the evaluations of several tasks measure, and the transformed copies they need."""
