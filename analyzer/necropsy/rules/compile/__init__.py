"""What torch.compile did to the code (CMP)."""
