"""ONNX models: the wire format without weights, and the records that are made of it."""
