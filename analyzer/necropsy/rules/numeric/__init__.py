"""Values that are no longer numbers, and mixed precision (NUM)."""
