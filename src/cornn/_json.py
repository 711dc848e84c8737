"""JSON files."""

import json
from pathlib import Path

__all__ = ["read_json"]


def read_json(path: Path) -> dict:
    try:
        content = json.loads(path.read_text(encoding="utf8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is not a JSON object")
    return content
