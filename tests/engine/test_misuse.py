"""Wrong arguments of `engine.run` are errors that name the argument and its remedy."""

import inspect
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
import torch

from cornn import engine

EXPLICIT = engine.OSCILLATORS["explicit", "tanh"]
ENGINE_PAGE = Path(__file__).parents[2] / "docs/api-engine.md"


def arguments():
    """Arguments of `engine.run` for 5 steps of 3 sequences with 2 features, and 4 neurons."""
    random = torch.Generator().manual_seed(0)
    shapes = {"input": (5, 3, 2), "state": (2, 3, 4), "input_weight": (4, 2), "bias": (4,), "weight": (4, 8)}
    return {
        name: torch.rand(shape, generator=random, dtype=torch.float64)
        for name, shape in (shapes | {"parameters": (3, 4)}).items()
    }


@pytest.mark.parametrize("name", engine.Scales._fields)
def test_scales_have_the_types_and_devices_of_their_weights(name):
    given = arguments()
    scales = engine.Scales(*(torch.ones_like(given[field]) for field in engine.Scales._fields))
    for other, words in (
        (getattr(scales, name).float(), "is torch.float32, the input torch.float64: convert one"),
        (getattr(scales, name).to("meta"), "is on meta, the input on cpu: move one"),
    ):
        with pytest.raises(ValueError, match=f"the scale of {name} {words}"):
            engine.run(**given, scales=scales._replace(**{name: other}), update=EXPLICIT)


MISUSES = {
    "vector": ({"input": torch.zeros(3)}, ValueError, r"input has shape \(3,\), .*: add dimensions with unsqueeze"),
    "number": ({"input": torch.tensor(1.0)}, ValueError, r"input has shape \(\), expected \(time, batch, features\)"),
    "list": (
        {"input": [[[1.0]]]},
        TypeError,
        "input is of type list, expected a tensor: convert it with torch.as_tensor",
    ),
    "array": ({"input": np.zeros((5, 3, 2))}, TypeError, "input is of type ndarray, expected a tensor"),
    "nothing": ({"input": None}, TypeError, "input is None, expected a tensor"),
    "sparse": ({"input": torch.zeros(5, 3, 2).double().to_sparse()}, TypeError, r"input is sparse .*\.to_dense"),
    "weight": (
        {"weight": torch.zeros(4)},
        ValueError,
        r"weight has shape \(4,\), expected \(products, states \* hidden\)",
    ),
    "state": (
        {"state": (torch.zeros(3, 4),) * 2},
        TypeError,
        "state is of type tuple, .* join its parts with torch.stack",
    ),
    "bias": ({"bias": 0.0}, TypeError, "bias is of type float, expected a tensor"),
    "parameters": ({"parameters": None}, TypeError, "parameters is None, expected a tensor"),
    "timespans": ({"timespans": 1.0}, TypeError, "timespans is of type float, expected a tensor"),
    "lengths": ({"lengths": [5, 4, 3]}, TypeError, "lengths is of type list, expected a tensor"),
    "half a step": (
        {"lengths": torch.ones(3)},
        ValueError,
        r"lengths are torch.float32, .* convert them with \.long\(\)",
    ),
    "no lengths": ({"lengths": torch.ones(3, dtype=torch.long, device="meta")}, TypeError, "lengths are on meta"),
    "name": ({"update": "cornn/explicit/tanh"}, TypeError, r"update is of type str, .* engine.find_update\(name\)"),
    "backend": ({"backend": ["c"]}, TypeError, "backend is of type list, expected a name"),
    "scales": ({"scales": (torch.ones(4, 2).double(),)}, TypeError, "scales are of type tuple, expected engine.Scales"),
    "no scales": ({"scales": engine.Scales(None, None, None)}, TypeError, "the scale of input_weight is None"),
}


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize(("change", "kind", "words"), MISUSES.values(), ids=MISUSES)
def test_a_wrong_argument_is_named_with_a_remedy(change, kind, words, gradient):
    given = arguments()
    given["bias"].requires_grad_(gradient)
    with pytest.raises(kind, match=words):
        engine.run(**(given | {"update": EXPLICIT} | change))


def test_scales_need_input_weights():
    given = arguments()
    scales = engine.Scales(*(torch.ones_like(given[field]) for field in engine.Scales._fields))
    given |= {"input": torch.zeros(5, 3, 4, dtype=torch.float64), "input_weight": None}
    with pytest.raises(ValueError, match="scales need input_weight, which is None"):
        engine.run(**given, scales=scales, update=EXPLICIT)


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_a_wrong_batch_is_named_by_every_backend(backend):
    given = arguments()
    given["state"] = torch.zeros(2, 4, 4, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"state has shape \(2, 4, 4\), expected \(2, 3, 4\)"):
        engine.run(**given, update=EXPLICIT, backend=backend)


def test_errors_that_no_argument_explains_stay_as_they_are(monkeypatch):
    def fail(*_):
        raise RuntimeError("out of memory")

    given = arguments()
    monkeypatch.setattr(engine.BACKENDS["portable"], "forward", fail)
    with pytest.raises(RuntimeError, match=r"^out of memory$"):
        engine.run(**given, update=EXPLICIT, backend="portable")


def test_the_page_of_the_engine_has_every_type_that_run_takes():
    hints = get_type_hints(engine.run).values()
    types = {one for hint in hints for one in (hint, *get_args(hint)) if inspect.isclass(one)}
    own = {one.__name__ for one in types if one.__module__.startswith("cornn.engine")}
    assert {"Scales", "Update"} <= own
    text = ENGINE_PAGE.read_text(encoding="utf8")
    assert all(f"::: cornn.engine.{name}\n" in text for name in own)
