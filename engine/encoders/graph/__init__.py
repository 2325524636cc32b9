"""Encoders as ONNX graphs: of queries, so that search starts without torch, and for export."""
