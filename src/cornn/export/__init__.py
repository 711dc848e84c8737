"""Trained models for other programs: ONNX, the Hugging Face hub, C. Each target is a module with one function."""

from cornn.export.load import Trained, as_trained, open_trained

__all__ = ["Trained", "as_trained", "open_trained"]
