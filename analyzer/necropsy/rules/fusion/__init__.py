"""What was not fused, and why (FUS)."""
