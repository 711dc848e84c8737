"""What `cornn bench` measures, prints, draws and writes, at sizes that take no time."""

import json
from pathlib import Path

import pytest
import torch

from cornn import CoRNN, engine
from cornn.cli.bench import BenchCommand
from cornn.engine._buffer_pool import take_buffer
from cornn.lab import bench
from cornn.lab.bench import cases, measure, plot, sweep, user_loop
from cornn.lab.bench.measure import peak_memory, row, turns

TINY = bench.Case(steps=5, batch=2, hidden=4, inputs=3)
OTHERS = {"plain loop", "nn.LSTM", "nn.GRU", "nn.RNN"}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr("cornn.lab.bench.measure.SETTLING_SECONDS", 0)
    monkeypatch.setattr("cornn.lab.bench.measure.TURN_SECONDS", 0)
    monkeypatch.setitem(bench.CASES, "tiny", TINY)
    monkeypatch.setattr(sweep, "LARGE_PRODUCT", 64)


def test_every_case_has_a_device_and_the_quick_ones_are_cases():
    assert all(case.devices and set(case.devices) <= {"cpu", "cuda"} for case in bench.CASES.values())
    assert set(bench.QUICK) <= set(bench.CASES)
    assert all("cpu" in bench.CASES[name].devices for name in bench.QUICK)


def test_each_backend_is_a_contender_or_is_said_to_be_none():
    layers, left_out = bench.contenders(TINY, "cpu")
    assert set(layers) >= OTHERS
    for name in engine.BACKENDS:
        assert (f"coRNN, {name}" in layers) != (f"coRNN, {name}" in left_out)
    assert all(left_out.values())


def test_without_torchrecurrent_its_place_is_explained(monkeypatch):
    monkeypatch.setattr(cases.importlib.util, "find_spec", lambda name: None)
    layers, left_out = bench.contenders(TINY, "cpu")
    assert "torchrecurrent coRNN" not in layers
    assert "pip install torchrecurrent" in left_out["torchrecurrent coRNN"]


def test_compare_has_a_figure_for_each_contender():
    said = []
    figures, _ = bench.compare(TINY, "cpu", 2, said.append)
    assert {figure.contender for figure in figures} == set(bench.contenders(TINY, "cpu")[0])
    assert [figure.seconds for figure in figures] == sorted(figure.seconds for figure in figures)
    assert all(figure.repeats == 2 and figure.forward_seconds > 0 for figure in figures)
    assert said


def test_everybodys_first_passes_of_a_turn_do_not_count(monkeypatch):
    monkeypatch.setattr("cornn.lab.bench.measure.SETTLING_SECONDS", 3.0)
    monkeypatch.setattr("cornn.lab.bench.measure.TURN_SECONDS", 4.0)
    took = {"short": 1.0, "long": 5.0}
    calls = []
    monkeypatch.setattr("cornn.lab.bench.measure.seconds", lambda call, device: took[call()])
    times = turns({name: lambda name=name: (calls.append(name), name)[1] for name in took}, "cpu", 2)
    assert times == {"short": [1.0] * 8, "long": [5.0] * 2}
    # a warm-up, then in each turn three short ones that do not count and four that do, and one long one of each kind
    assert calls == ["short", "long", *(["short"] * 7 + ["long"] * 2) * 2]


def test_peak_memory_sees_what_a_call_lets_go_of():
    size = 1 << 25
    found = peak_memory(lambda: torch.zeros(size // 4).sum(), "cpu")
    if found is None:
        pytest.skip("this system does not tell the memory of a process")
    assert 0.9 * size < found < 1.5 * size


def test_peak_memory_sees_what_is_used_again():
    def call():
        take_buffer((1 << 24,), torch.float32).fill_(1)

    call()
    found = peak_memory(call, "cpu")
    if found is None:
        pytest.skip("this system does not tell the memory of a process")
    assert found > 0.9 * 4 * (1 << 24)


def test_a_record_says_of_what_it_is():
    figures, _ = bench.compare(TINY, "cpu", 1)
    content = bench.record("a kind", [row("tiny", TINY, figure, threads=1) for figure in figures])
    assert {"measured", "machine", "commit", "rows"} <= set(content)
    wanted = {"case", "batch", "hidden", "steps", "threads", "contender", "seconds", "forward_seconds", "memory"}
    assert wanted <= set(content["rows"][0])
    json.dumps(content)


def tiny_sweep():
    return bench.Sweep("steps", "steps", (2, 4, 8), bench.Case(0, 1, 4))


def test_a_sweep_follows_everybody_up_to_the_end():
    points, floor, failed = bench.measure_sweep(tiny_sweep(), "cpu", 1, 25.0)
    assert not failed
    assert [point.value for point in floor] == [2, 4, 8]
    assert [point.value for point in points if point.contender == "plain loop"] == [2, 4, 8]
    assert all(point.seconds > 0 for point in (*points, *floor))


@pytest.mark.parametrize(("longest", "most_memory"), [(1e-9, 0.4), (25.0, 0.0)])
def test_a_sweep_lets_go_of_what_would_take_too_long_or_too_much(longest, most_memory, monkeypatch):
    monkeypatch.setattr(sweep, "MAX_MEMORY", most_memory)
    monkeypatch.setattr(sweep, "peak_memory", lambda call, device: (call(), 1000)[1])
    points, _, _ = bench.measure_sweep(tiny_sweep(), "cpu", 1, longest)
    assert {point.value for point in points} == {2}


def test_a_contender_that_fails_ends_there_and_the_others_go_on(monkeypatch):
    def memory(call, device):
        output = call()
        if len(output) and sweep_at["now"].startswith("nn.LSTM, 4"):
            raise RuntimeError("not supported\nmore")
        return 1000

    sweep_at = {"now": ""}
    monkeypatch.setattr(sweep, "peak_memory", memory)
    points, _, failed = bench.measure_sweep(tiny_sweep(), "cpu", 1, 25.0, lambda text: sweep_at.update(now=text))
    assert failed == {"nn.LSTM": "4 steps: not supported"}
    assert [point.value for point in points if point.contender == "nn.LSTM"] == [2]
    assert [point.value for point in points if point.contender == "nn.GRU"] == [2, 4, 8]


def test_lengths_reach_a_million_steps_within_memory():
    lengths = bench.SWEEPS["length"]
    assert lengths.values[0] == 100
    assert lengths.values[-1] == 10**6
    # y, z and the activation are kept; the drive's and the output's gradients come on top.
    assert 5 * 4 * 10**6 * lengths.case.batch * lengths.case.hidden < 2e9


def test_the_command_prints_a_table_and_writes_a_record(tmp_path, capsys):
    before = torch.get_num_threads()
    BenchCommand(cases=("tiny",), threads=(1, 2), repeats=1, json=tmp_path / "speed.json").run()
    assert torch.get_num_threads() == before
    printed = capsys.readouterr().out
    assert "tiny: 5 steps, 2 sequences, 4 neurons, 3 inputs, 1 thread" in printed
    assert "coRNN, portable" in printed
    rows = json.loads((tmp_path / "speed.json").read_text())["rows"]
    assert {row["threads"] for row in rows} == {1, 2}


def test_the_command_draws_a_plot(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setitem(bench.SWEEPS, "length", tiny_sweep())
    BenchCommand(against="length", threads=(1,), repeats=1, plot=tmp_path / "here", json=tmp_path / "here.json").run()
    drawn = (tmp_path / "here.svg").read_text()
    assert all(
        word in drawn for word in ("plain loop", "floor", "steps", "µs per step", "1 sequence, 4 neurons; 1 thread")
    )
    assert (tmp_path / "here.png").stat().st_size > 1000
    assert "floor" in capsys.readouterr().out
    assert json.loads((tmp_path / "here.json").read_text())["rows"]


def test_which_passes_are_captured():
    layers, _ = bench.contenders(TINY, "cpu")
    assert {name for name, layer in layers.items() if measure.can_capture(layer)} == {"nn.LSTM", "nn.GRU", "nn.RNN"}
    assert measure.can_capture(CoRNN(2, 3, backend="cuda"))


def test_colours_and_markers_tell_everybody_apart():
    styles = [*plot.STYLES.values(), plot.SPARE]
    assert len({colour for colour, _, _ in styles}) == len(styles)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cases": ("none",)}, "unknown case 'none': choose one of psmnist-128"),
        ({"threads": (0,)}, "must be above 0"),
        ({"longest": 0.0}, "must be above 0"),
        ({"longest": float("nan")}, "must be above 0"),
        ({"cases": ("har2-64",), "against": "batch"}, "--against has cases of its own: leave out --cases"),
        ({"plot": Path("x")}, "--plot is for --against"),
        ({"loop": True, "threads": (1, 2)}, "--loop takes a single value of --threads"),
        ({"longest": 1.0, "against": "batch", "threads": (1, 2)}, "a single value of --threads"),
    ],
)
def test_what_it_does_not_take(options, words):
    with pytest.raises(ValueError, match=words):
        BenchCommand(**options).run()


def test_a_folder_that_is_not_there_is_found_out_first(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        BenchCommand(json=tmp_path / "no" / "speed.json").run()


def test_a_users_loop_is_measured_in_turns(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(bench.LOOPS, "tiny", TINY)
    path = tmp_path / "loop.json"
    BenchCommand(loop=True, cases=("tiny",), repeats=2, json=path).run()
    content = json.loads(path.read_text(encoding="utf8"))
    found = {(row["contender"], row["mode"]) for row in content["rows"]}
    assert found == {(name, "launched") for name in user_loop.CONTENDERS}
    assert all(row["seconds"] > 0 and row["forward_seconds"] > 0 and row["repeats"] == 2 for row in content["rows"])
    assert "CoRNN, given constants" in capsys.readouterr().out


def test_a_loop_that_fails_is_left_out_with_its_reason(monkeypatch):
    def broken(inputs, hidden, device):
        layer = torch.nn.LSTM(inputs, hidden)
        layer.forward = lambda *arguments: (_ for _ in ()).throw(RuntimeError("no wheels"))
        return layer

    monkeypatch.setattr(user_loop, "CONTENDERS", {"broken": broken})
    figures, left_out = bench.measure_loops(TINY, ("compiled", "captured"), 1, "cpu")
    assert not figures
    assert set(left_out) == {"broken, captured"}


def test_a_loop_takes_its_own_cases():
    with pytest.raises(ValueError, match=r"unknown case 'many-128': .*choose one of psmnist-128, "):
        BenchCommand(loop=True, cases=("many-128",)).run()
    with pytest.raises(ValueError, match="two kinds of measurements"):
        BenchCommand(loop=True, against="length").run()
