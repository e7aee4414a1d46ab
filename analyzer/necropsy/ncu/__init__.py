"""Arithmetic on launches that Nsight Compute profiled: what they reached, and what they could have."""
