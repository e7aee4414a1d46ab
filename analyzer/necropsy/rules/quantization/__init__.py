"""INT8 and FP8: scales, Q/DQ nodes, and what runs quantized (QNT)."""
