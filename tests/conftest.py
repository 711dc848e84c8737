"""Shapes and types are checked at run time in the modules that are annotated for it, where beartype is installed."""

import importlib.util
import os

from jaxtyping import install_import_hook

if importlib.util.find_spec("beartype") and not os.environ.get("CORNN_NO_SHAPES"):
    install_import_hook(["cornn.functional", "cornn.layers"], "beartype.beartype")
