"""Builds and engines of TensorRT (TRT)."""
