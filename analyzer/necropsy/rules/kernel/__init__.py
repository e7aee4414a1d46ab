"""Kernels and what they run on (KRN)."""
