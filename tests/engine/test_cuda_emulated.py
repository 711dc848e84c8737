"""The way from a layer to the block kernels, on a CPU: what is handed over, in which order, and what comes back.

The kernels are emulated; test_block_emulated.py holds them against the portable loop one by one.
"""

import ctypes
from types import SimpleNamespace

import pytest
import torch
from emulation import assert_near, built
from own_updates import OSCILLATOR
from test_block_emulated import CALLS_WITH_SCALES, INSTRUCTIONS, MAKES_DRIVE, MAKES_DRIVE_WITH_SCALES
from test_tensor_emulated import CALLS, ENTRY, pytestmark  # noqa: F401

from cornn import HORN, CoRNN, CustomRNN, baselines, engine
from cornn.engine.backends.cuda import backend as cuda

POINTERS, NUMBERS = {"forward": 9, "backward": 14}, {"forward": 5, "backward": 4}
"""Of a kernel's arguments: tensors come first, then numbers, then, perhaps, what the drive is made of."""


@pytest.fixture(autouse=True)
def emulated(tmp_path, monkeypatch):
    """Kernels asked for in this test, by their names."""
    asked = []

    def prepare(file, direction, macros, device, blocks, threads, shared):
        folder = tmp_path / str(len(asked))
        folder.mkdir()
        asked.append(file)
        makes_drive, calls = (
            (MAKES_DRIVE_WITH_SCALES, CALLS_WITH_SCALES) if "SCALED" in macros else (MAKES_DRIVE, CALLS)
        )
        entry = ENTRY.format(call=makes_drive if "FEATURES" in macros else calls[direction])
        library = built(folder, file.removesuffix(".cu"), macros, entry, INSTRUCTIONS)
        return library, direction, blocks, threads

    def launch(what, arguments):
        library, direction, blocks, threads = what
        end = POINTERS[direction] + NUMBERS[direction]
        numbers = [int(x) for x in arguments[POINTERS[direction] : end]]
        tensors = [*arguments[: POINTERS[direction]], *arguments[end:]]
        assert all(x is None or x.is_contiguous() for x in tensors)
        pointers = (ctypes.c_void_p * len(tensors))(*(None if x is None else x.data_ptr() for x in tensors))
        library.run(blocks, threads, pointers, (ctypes.c_longlong * len(numbers))(*numbers))

    monkeypatch.setitem(engine.UPDATES, "undamped", OSCILLATOR)
    monkeypatch.setattr(cuda, "prepare", prepare)
    monkeypatch.setattr(cuda, "launch", launch)
    monkeypatch.setattr(cuda, "is_small", lambda *_: False)  # the weight gradients by PyTorch
    monkeypatch.setattr(cuda, "usable", lambda problem: (problem.dtype == torch.float32, "emulated"))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(multi_processor_count=2))
    cuda._prepare.cache_clear()
    yield asked
    cuda._prepare.cache_clear()


def results(layer, input, **given):
    """Output, last states and all gradients."""
    output, last = layer(input, **given)
    last = last if isinstance(last, tuple) else (last,)
    random = torch.Generator().manual_seed(5)
    terms = [(x * torch.randn(x.shape, generator=random).to(x)).sum() for x in (output, *last)]
    leaves = [input, *layer.parameters()]
    return [output, *last, *torch.autograd.grad(sum(terms), leaves)]


CASES = {
    "the kernel makes the drive": (CoRNN, {"input_size": 2, "init": "paper"}, {}),
    "the drive is made before": (CoRNN, {"input_size": 6, "init": "paper"}, {}),
    "scales, the kernel makes the drive": (CoRNN, {"input_size": 2}, {}),
    "scales, the drive is made before": (CoRNN, {"input_size": 18, "damping": "implicit"}, {}),
    "scales, an odd size": (CoRNN, {"input_size": 2, "bias": False, "hidden_size": 33}, {}),
    "trained constants, implicit": (
        CoRNN,
        {"input_size": 2, "init": "paper", "trainable": ("dt", "gamma"), "damping": "implicit"},
        {},
    ),
    "timespans": (CoRNN, {"input_size": 2, "init": "paper"}, {"timespans": True}),
    "two layers, both ways, batch first": (
        CoRNN,
        {"input_size": 2, "init": "paper", "num_layers": 2, "bidirectional": True, "batch_first": True},
        {},
    ),
    "one state": (baselines.LAYERS["fastgrnn"], {"input_size": 2}, {}),
    "two drives": (baselines.LAYERS["lipschitz"], {"input_size": 2}, {}),
    "HORN, trained constants": (HORN, {"input_size": 2, "trainable": ("omega", "gamma", "alpha")}, {}),
    "UnICORNN": (baselines.UnICORNN, {"input_size": 2}, {}),
    "UnICORNN, timespans": (baselines.UnICORNN, {"input_size": 2}, {"timespans": True}),
    "a registered update": (CustomRNN, {"input_size": 2, "update": "undamped"}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_layer_by_its_kernels(emulated, name):
    kind, options, given = CASES[name]
    options = {"hidden_size": 20, **options}
    layer = kind(backend="cuda", **options)
    layer.reset_parameters(torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in layer.parameters():  # none of them zero, as the coupling is at first
            parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
    exact = kind(backend="reference", dtype=torch.float64, **options)
    exact.load_state_dict(layer.state_dict())
    random = torch.Generator().manual_seed(1)
    input = torch.randn(5, 3, options["input_size"], generator=random)
    spans = {"timespans": torch.rand(5, 3, generator=random) + 0.5} if given else {}
    found = results(layer, input.clone().requires_grad_(), **spans)
    wide = {key: value.double() for key, value in spans.items()}
    wanted = results(exact, input.double().requires_grad_(), **wide)
    for number, (got, want) in enumerate(zip(found, wanted, strict=True)):
        assert_near(got, want.detach(), f"result {number}")
    assert {"block_forward.cu", "block_backward.cu"} <= set(emulated)


def test_ragged_sequences():
    layer = CoRNN(2, 20, backend="cuda", init="paper")
    exact = CoRNN(2, 20, backend="reference", dtype=torch.float64, init="paper")
    exact.load_state_dict(layer.state_dict())
    input = torch.randn(5, 3, 2, generator=torch.Generator().manual_seed(1))
    packed = [torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 4, 1])) for x in (input, input.double())]
    (found, (y, z)), (wanted, last) = layer(packed[0]), exact(packed[1])
    for got, want in zip((found.data, y, z), (wanted.data, *last), strict=True):
        assert_near(got.detach(), want.detach(), "output or state")


def test_models_side_by_side(emulated):
    layer, input = (
        CoRNN(2, 20, backend="cuda", init="paper"),
        torch.randn(5, 3, 2, generator=torch.Generator().manual_seed(1)),
    )
    weights = {name: torch.stack((value, 0.5 * value)).detach() for name, value in layer.named_parameters()}

    def call(own):
        return torch.func.functional_call(layer, own, (input,))[0]

    with torch.no_grad():
        together = torch.vmap(call)(weights)
        assert emulated == ["block_forward.cu"]
        for number in (0, 1):
            alone = call({name: value[number] for name, value in weights.items()})
            assert_near(together[number], alone.double(), "output")
