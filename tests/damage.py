"""Small saved folders, ways to damage them, and what is read from them. benchmarks/reliability.py uses it too."""

import copy
import json
import random
from pathlib import Path

import numpy as np
import torch

from cornn import SequenceModel, artifacts
from cornn._checksums import UncheckedFileWarning
from cornn.baselines import MODELS
from cornn.lab.runs import create, open_run, save_checkpoints

READ_BACK = ["artifact.json", "config.json", "model.safetensors", "result.json", "metrics.jsonl"]
FILES = {
    "finished": READ_BACK,
    "interrupted": ["artifact.json", "config.json", "metrics.jsonl", "checkpoint.pt"],
    "estimator": READ_BACK[:4],
}
"""Saved folder -> its files that are read back."""
HOSTILE = [
    None,
    [],
    {},
    "",
    "x",
    "../x",
    True,
    -1,
    0,
    1e308,
    1e29,
    10**31,
    10**400,
    float("nan"),
    [1, 2],
    {"a": 1},
    0.5,
]
"""Values that a setting should not have, or only some settings."""


def small_model(name="cornn"):
    torch.manual_seed(0)
    return SequenceModel(MODELS[name].layer(2, 4), outputs=2)


def write_table(path: Path) -> None:
    """Write a table of two classes."""
    draw = np.random.default_rng(0)
    rows = [[*np.round(draw.normal(size=6) + k % 2, 3), "ab"[k % 2]] for k in range(20)]
    lines = [",".join(map(str, row)) for row in [[*(f"t{k}" for k in range(6)), "y"], *rows]]
    path.write_text("\n".join(lines))


def write_folders(root: Path) -> None:
    """Write a finished run, an interrupted run, and a fitted estimator with its data."""
    from cornn.fitting import fit_file

    model = small_model()
    for name in ("finished", "interrupted"):
        run = create(root / name, {"seed": 3, "model": {"dt": 0.1}})
        for step in (1, 2):
            run.log({"step": step, "metric": 1 / step})
            save_checkpoints([(run, {"step": step, "weights": model.state_dict()})])
        if name == "finished":
            run.save_model(model, model.state_dict())
            run.save_result({"test": 0.25})
    write_table(root / "data.csv")
    fit_file(root / "data.csv", target="y", out=root / "estimator", report=False)


def use(folder: Path) -> str:
    """What the commands read from a folder, as one comparable value."""
    saved = artifacts.load(folder)
    if isinstance(saved, artifacts.EstimatorArtifact):
        from cornn.fitting import predict_file

        table = predict_file(folder, folder.parent / "data.csv")
        return repr((table, saved.result, saved.config))
    run = open_run(folder)
    if run.complete:
        with torch.no_grad():
            answer = run.model()(torch.linspace(-1, 1, 12).reshape(3, 2, 2))
        return repr((answer.tolist(), run.metrics(), run.config, run.result))
    checkpoint = run.checkpoint()
    run.drop_metrics_after(checkpoint["step"])
    weights = {name: value.tolist() for name, value in checkpoint["weights"].items()}
    return repr((checkpoint["step"], weights, run.metrics(), run.config))


def use_or_sentence(folder: Path) -> tuple[str | None, str | None]:
    try:
        return use(folder), None
    except (ValueError, UncheckedFileWarning, FileNotFoundError) as error:
        return None, str(error)


def flip_bit(content: bytes, draw: random.Random) -> bytes:
    damaged = bytearray(content)
    damaged[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    return bytes(damaged)


def damage(content: bytes, draw: random.Random) -> bytes:
    """Flip a bit, cut off, exchange the halves, empty, fill with NULs or noise, repeat, or change a value of a JSON."""
    if not content:
        return b"x"
    middle, whole = len(content) // 2, len(content)
    start = draw.randrange(whole)
    end = min(whole, start + draw.randrange(1, 64))
    ways = [
        lambda: flip_bit(content, draw),
        lambda: content[:start],
        lambda: content[middle:] + content[:middle],
        lambda: content[:start] + bytes(end - start) + content[end:],
        lambda: content[:start] + draw.randbytes(end - start) + content[end:],
        lambda: content[:start] + content[end:],
        lambda: content + content[start:end],
        lambda: content + b'{"x": 1}\n',
    ]
    try:
        parsed = json.loads(content)
        return json.dumps(change_value(parsed, draw)).encode() if draw.random() < 0.7 else draw.choice(ways)()
    except (ValueError, UnicodeDecodeError):
        return draw.choice(ways)()


def places(content, at=()):
    """Every path to a value."""
    found = [at] if at else []
    if isinstance(content, dict):
        for name, value in content.items():
            found += places(value, (*at, name))
    return found


def change_value(content: dict, draw: random.Random) -> dict:
    """Return a copy with one value, at any depth, removed or replaced by a hostile one."""
    changed = copy.deepcopy(content)
    *path, last = draw.choice(places(changed))
    holder = changed
    for name in path:
        holder = holder[name]
    if draw.random() < 0.2:
        del holder[last]
    else:
        holder[last] = draw.choice(HOSTILE)
    return changed
