"""The captured path against the portable one, which runs the same operations."""

import pytest
import torch
from test_cuda import UPDATE, arguments, call, poison, results

from cornn.engine.backends import graph

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")

# The parameters' gradients are summed chunk by chunk.
SAME = 1e-5


@pytest.mark.parametrize("steps", [graph.CHUNK, 3 * graph.CHUNK, 3 * graph.CHUNK + 5])
@pytest.mark.parametrize(
    "options",
    [{}, {"ragged": True}, {"spans": True}, {"spans": True, "ragged": True}, {"groups": 3}],
    ids=["plain", "ragged", "spans", "both", "groups"],
)
def test_it_is_the_portable_path(steps, options):
    given, lengths = arguments(steps, 7, 40, **options)
    want = results(given, lengths, dtype=torch.float32, backend="portable")
    for _ in range(2):  # the second time with graphs that are there already
        poison()
        got = results(given, lengths, dtype=torch.float32, backend="graph")
        for name, value in want.items():
            assert (got[name] - value).norm() <= SAME * value.norm(), name


def test_it_serves_what_does_not_fit_on_the_chip():
    given, _ = arguments(70, 5, 600)
    want = results(given, None, dtype=torch.float64, backend="portable")
    got = results(given, None, dtype=torch.float32, backend="auto", every=False)
    assert (got["last"].double() - want["last"]).norm() <= SAME * want["last"].norm()


def test_two_streams_do_not_share_buffers():
    cases = [arguments(200, 16, 600, seed=seed)[0] for seed in (1, 2)]
    want = [results(given, None, dtype=torch.float32, backend="portable") for given in cases]
    streams = [torch.cuda.Stream() for _ in cases]
    torch.cuda.synchronize()
    got = []
    for given, stream in zip(cases, streams, strict=True):
        with torch.cuda.stream(stream):
            got.append(results(given, None, dtype=torch.float32, backend="graph"))
    torch.cuda.synchronize()
    for a, b in zip(got, want, strict=True):
        for name, value in b.items():
            assert (a[name] - value).norm() <= SAME * value.norm(), name


def test_inside_a_graph_of_the_user():
    given, _ = arguments(70, 5, 64)
    with torch.no_grad():
        want = call(given, None, UPDATE, "portable", True)[0]
        call(given, None, UPDATE, "graph", True)
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            output, _ = call(given, None, UPDATE, "graph", True)
        recorded.replay()
    torch.cuda.synchronize()
    assert (output - want).norm() <= SAME * want.norm()
