"""The input pipeline (DAT)."""
