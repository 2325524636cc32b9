"""Encoders as ONNX graphs: of queries, for a start without torch, and for export."""
