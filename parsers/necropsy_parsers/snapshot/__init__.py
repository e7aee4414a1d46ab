"""Memory snapshots of torch's CUDA allocator, as records."""
