import json
import math

import pytest
import scipy.stats
import synthetic
import torch

from cornn._checksums import write_sealed_json
from cornn.lab import training
from cornn.lab.config import as_dictionary
from cornn.lab.recipes import resolve
from cornn.lab.runs import Run, create
from cornn.lab.training import multi_seed, state
from cornn.lab.training.fit import describe_run
from cornn.lab.training.multi_seed import summarise

synthetic.register()
CONFIG = resolve("synthetic", device="cpu", save_every=0.0)


def test_a_summary_is_that_of_the_tests(tmp_path):
    tests = [97.0, 96.0, 98.5, 95.5]
    runs = []
    for seed, test in enumerate(tests):
        runs.append(create(tmp_path / str(seed), {"seed": seed}))
        runs[-1].save_result({"test": test, "metric": "accuracy", "better": "higher", "seconds": 2.0 + seed})
    summary = summarise([*runs, create(tmp_path / "unfinished", {"seed": 9})])
    low, high = scipy.stats.t.interval(0.95, 3, loc=96.75, scale=scipy.stats.sem(tests))
    assert (summary["seeds"], summary["finished"], summary["best"], summary["mean"]) == (5, 4, 98.5, 96.75)
    assert summary["deviation"] == pytest.approx(math.sqrt(sum((t - 96.75) ** 2 for t in tests) / 3))
    assert summary["interval_95"] == pytest.approx([low, high])
    assert summarise(runs[:1])["interval_95"] is None


def test_folders_and_summary(tmp_path):
    summary, runs = training.fit_seeds(CONFIG, range(4, 7), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "seed-4", "seed-5", "seed-6", "seeds.json", "summary.json"
    ]  # fmt: skip
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert [run.config["seed"] for run in runs] == [4, 5, 6]
    assert summary["tests"] == [run.result["test"] for run in runs]
    for run in runs:
        assert training.evaluate(run.path)[2] == pytest.approx(run.result["test"])
    with pytest.raises(FileExistsError, match="already contains runs"):
        training.fit_seeds(CONFIG, range(2), tmp_path)


def interrupted(tmp_path):
    def stop(progress):
        if progress.step == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.fit_seeds(CONFIG, range(3), tmp_path, stop)


def test_what_was_trained_together_goes_on_together_or_alone(tmp_path):
    _, whole = training.fit_seeds(CONFIG, range(3), tmp_path / "whole")
    for name in ("together", "alone"):
        interrupted(tmp_path / name)
    _, together = training.resume_seeds(tmp_path / "together")
    for one, other in zip(whole, together, strict=True):
        assert all(torch.equal(value, other.weights()[name]) for name, value in one.weights().items())
    alone = training.resume(tmp_path / "alone" / "seed-1")
    for name, value in whole[1].weights().items():
        torch.testing.assert_close(alone.weights()[name], value, rtol=2e-5, atol=2e-6)
    summary, _ = training.resume_seeds(tmp_path / "alone")
    assert summary["finished"] == 3


def test_killed_while_they_were_saved_they_go_on_from_the_step_before(tmp_path):
    _, whole = training.fit_seeds(CONFIG, range(3), tmp_path / "whole")
    interrupted(tmp_path / "parts")
    for seed in (0, 2):
        folder = tmp_path / "parts" / f"seed-{seed}"
        (folder / "checkpoint-before.pt").replace(folder / "checkpoint.pt")
    steps = [
        checkpoint["step"]
        for checkpoint in multi_seed._find_common([tmp_path / "parts" / f"seed-{n}" for n in range(3)])
    ]
    assert len(set(steps)) == 1
    kept = [Run(tmp_path / "parts" / f"seed-{seed}").checkpoint()["step"] for seed in range(3)]
    assert kept == steps
    _, parts = training.resume_seeds(tmp_path / "parts")
    for one, other in zip(whole, parts, strict=True):
        assert all(torch.equal(value, other.weights()[name]) for name, value in one.weights().items())
        assert other.result["side_by_side"] == 3


def test_those_at_another_step_go_on_by_themselves(tmp_path):
    interrupted(tmp_path)
    (tmp_path / "seed-2" / "checkpoint.pt").unlink()
    _, runs = training.resume_seeds(tmp_path)
    assert [run.result["side_by_side"] for run in runs] == [3, 3, 1]


@pytest.mark.parametrize("changes", [{"model": "lstm"}, {"options": {"ragged": True}}], ids=str)
def test_what_does_not_fit_side_by_side_goes_one_after_another(tmp_path, changes):
    options = changes.pop("options", {})
    _, runs = training.fit_seeds(resolve("synthetic", **options, device="cpu", epochs=1, **changes), range(2), tmp_path)
    assert [run.result["side_by_side"] for run in runs] == [1, 1]


def test_each_stops_by_itself_once_it_is_good_enough(tmp_path):
    config = resolve("adding", length=10, hidden_size=16, steps=400, evaluate_every=20, until=0.05, device="cpu")
    _, runs = training.fit_seeds(config, range(3), tmp_path / "together")
    for seed, run in enumerate(runs):
        alone = training.fit(config.override(seed=seed), tmp_path / str(seed))
        assert run.result["steps"] == alone.result["steps"] < 400


def test_one_that_diverges_does_not_stop_the_others(tmp_path, monkeypatch):
    real = state.prepare

    def prepare(config, fabric):
        one = real(config, fabric)
        if config.seed == 1:
            with torch.no_grad():
                one.model.head.bias.fill_(math.nan)
        return one

    monkeypatch.setattr("cornn.lab.training.multi_seed.prepare", prepare)
    summary, _ = training.fit_seeds(CONFIG, range(3), tmp_path)
    assert (summary["finished"], summary["seeds"]) == (2, 3)
    assert summary["failures"]["1"] == "the weights are not finite after step 1"
    assert Run(tmp_path / "seed-1").result is None


@pytest.mark.parametrize("model", ["lstm", "cornn"])
def test_one_after_another_each_goes_on_from_where_it_was(tmp_path, model):
    options = {} if model == "lstm" else {"ragged": True}
    config = resolve("synthetic", **options, device="cpu", save_every=0.0, model=model)
    steps = []

    def stop(progress):
        steps.append(progress.step)
        if progress.step == 5 and steps.count(5) == 2:  # of the second seed
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.fit_seeds(config, range(3), tmp_path / "parts", stop)
    seen = []
    _, parts = training.resume_seeds(tmp_path / "parts", lambda progress: seen.append(progress.step))
    assert seen[0] == 6
    _, whole = training.fit_seeds(config, range(3), tmp_path / "whole")
    for one, other in zip(whole, parts, strict=True):
        assert all(torch.equal(value, other.weights()[name]) for name, value in one.weights().items())


def test_batches_of_different_size_are_not_put_side_by_side(tmp_path):
    config = resolve("synthetic", size=9, uneven=True, device="cpu", batch_size=10, epochs=1)
    _, runs = training.fit_seeds(config, range(3), tmp_path)
    assert [run.result["side_by_side"] for run in runs] == [1, 1, 1]


@pytest.mark.parametrize("seeds", [[], [1, 1]], ids=str)
def test_seeds_are_one_or_more_and_each_once(tmp_path, seeds):
    with pytest.raises(ValueError, match="seeds must be one or more distinct numbers"):
        training.fit_seeds(CONFIG, seeds, tmp_path)


def test_a_seed_whose_weights_are_gone_is_not_done(tmp_path):
    _, runs = training.fit_seeds(CONFIG, range(2), tmp_path)
    weights = runs[0].weights()
    (runs[0].path / "model.safetensors").unlink()
    _, again = training.resume_seeds(tmp_path)
    for name, value in again[0].weights().items():
        torch.testing.assert_close(value, weights[name])


def test_seeds_that_are_there_are_continued_or_taken_as_they_are(tmp_path):
    whole, failures = training.train_seeds(CONFIG, (3, 1), tmp_path / "whole")
    assert [run.config["seed"] for run in whole] == [3, 1]
    assert failures == {}

    def stop(progress):
        if progress.step == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.train_seeds(CONFIG, (3, 1), tmp_path / "parts", stop)
    parts, _ = training.train_seeds(CONFIG, (3, 1), tmp_path / "parts")
    for one, other in zip(whole, parts, strict=True):
        assert all(torch.equal(value, other.weights()[name]) for name, value in one.weights().items())
    again, _ = training.train_seeds(CONFIG, (1, 5), tmp_path / "parts", lambda progress: None)
    assert [run.config["seed"] for run in again] == [1, 5]
    other = resolve("synthetic", device="cpu", learning_rate=0.02)
    with pytest.raises(ValueError, match=r"is the run of another configuration .*learning_rate was 0\.01, is 0\.02"):
        training.train_seeds(other, (1,), tmp_path / "parts")


def test_a_run_of_another_configuration_is_not_continued(tmp_path):
    """Also before its first checkpoint: its config.json, and so its record, would keep the old settings."""
    other = resolve("synthetic", device="cpu", learning_rate=0.02, seed=1)
    create(tmp_path / "seed-1", describe_run(other))
    with pytest.raises(ValueError, match=r"is the run of another configuration .*learning_rate was 0\.02, is 0\.01"):
        training.train_seeds(CONFIG, (1,), tmp_path)
    with pytest.raises(FileExistsError, match="already contains runs"):
        training.fit_seeds(CONFIG, (1,), tmp_path)
    write_sealed_json(tmp_path / "seeds.json", {"seeds": [1], "config": as_dictionary(CONFIG)})
    with pytest.raises(ValueError, match="is the run of another configuration"):
        training.resume_seeds(tmp_path)


@pytest.mark.parametrize("seed", ["x/../../../outside", "0", 1.0, True, -1, None, [1]])
def test_seeds_of_a_file_name_no_folder_outside(tmp_path, seed):
    path = tmp_path / "runs" / "one"
    path.mkdir(parents=True)
    write_sealed_json(path / "seeds.json", {"seeds": [0, seed], "config": {}})
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=r"seeds must be whole numbers, at least 0, got .*: the file is damaged"):
        training.read_seeds(path)
    with pytest.raises(ValueError, match="seeds must be whole numbers"):
        training.resume_seeds(path)
    assert sorted(tmp_path.rglob("*")) == before


def test_epochs_are_steps_divided_by_the_steps_of_an_epoch(tmp_path):
    config = resolve("synthetic", device="cpu", epochs=3, batch_size=10)  # 37 sequences: 4 steps per epoch
    run = training.fit(config, tmp_path / "run")
    result, (first, *_) = run.result, run.metrics()
    assert result["steps"] == 12
    assert result["epochs"] == 3
    assert result["best_epoch"] == round(result["best_step"] / 4, 3)
    assert first["step"] > 0


def test_leftovers_of_a_killed_process_go(tmp_path):
    def stop(progress):
        if progress.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.fit_seeds(CONFIG, range(2), tmp_path, stop)
    for name in (".new-seeds.json-0a1b2c3d", ".new-summary.json-0a1b2c3d"):
        (tmp_path / name).write_text("half")
    training.resume_seeds(tmp_path)
    assert not list(tmp_path.glob(".new-*"))
