"""Export trained models to ONNX, C and the Hugging Face hub."""

from cornn.export.load import TrainedBank, TrainedModel, load_model, wrap_model

__all__ = ["TrainedBank", "TrainedModel", "load_model", "wrap_model"]
