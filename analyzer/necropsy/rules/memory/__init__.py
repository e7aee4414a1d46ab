"""Device and host memory (OOM)."""
