import json
from dataclasses import dataclass, replace

import pytest
from scripts import import_script

from cornn.lab import config as configuration
from cornn.lab import records, training
from cornn.lab.config import as_dictionary, from_dictionary
from cornn.lab.recipes import RECIPES, Recipe, resolve
from cornn.lab.runs import create

import_record = import_script("tools/import_records.py").import_record
SMALL = resolve("adding", length=10, hidden_size=4, steps=20, evaluate_every=10, until=0, device="cpu", seed=3)


def failed(config):
    """A record without a training."""
    return {"config": json.loads(json.dumps(as_dictionary(config))), "result": {"failed": "not run"}, "curve": {}}


def test_a_record_is_what_the_run_folder_says_without_weights(tmp_path):
    run = training.fit(SMALL, tmp_path / "run")
    content = records.record(run)
    path = records.write(content, tmp_path / "results")
    name = "ours-length-10-steps-20-evaluate_every-10-until-0.0-cornn4-seed3"
    assert path == tmp_path / f"results/adding/{name}-{records.identity(SMALL)[:8]}.json"
    (read,) = records.read(tmp_path / "results", "adding")
    assert read["identity"] == records.identity(SMALL)
    assert records.read_config(read) == SMALL
    source = read["result"].pop("source")
    assert isinstance(source, str)
    assert read["result"] == run.result
    assert read["curve"]["step"] == [10, 20]
    assert read["curve"]["metric"] == pytest.approx([row["metric"] for row in run.metrics()], rel=1e-5)


def test_a_run_that_has_not_finished_has_no_record(tmp_path):
    with pytest.raises(ValueError, match=r"has not finished: continue with `cornn resume"):
        records.record(create(tmp_path, {}))


def test_a_long_name_is_cut_and_stays_its_own(tmp_path):
    """A name of more than 255 bytes cannot be written, and the record would be lost."""
    values = {"dt": 0.1, "epsilon": 1.0, "learning_rate": 0.1, "weight_decay": 1.0, "drop_to": 0.1, "clip": 1.0}
    long = {name: value + 0.0123456789012 for name, value in values.items()}
    long |= {"half_lives": (0.123456789012, 9.87654321), "trainable": ("dt",), "beta2": 0.912345678901, "ema": 0.98765}
    configs = [resolve("psmnist", "paper", shift=1, seed=10**9, until=until, **long) for until in (1.5, 2.5)]
    names = [records.name(config) for config in configs]
    assert names[0] != names[1]
    assert all(len(name.encode()) <= 240 and "-seed1000000000-" in name for name in names)
    records.write(failed(configs[0]), tmp_path)
    assert records.missing(tmp_path, configs) == [configs[1]]


def test_a_changed_recipe_makes_its_records_missing(tmp_path, monkeypatch):
    before = resolve("psmnist", "better")
    records.write(failed(before), tmp_path)
    assert records.missing(tmp_path, [resolve("psmnist", "better")]) == []
    changed = Recipe(before.override(epochs=24), "changed", "better")
    monkeypatch.setitem(RECIPES["psmnist"], "better", changed)
    assert records.missing(tmp_path, [resolve("psmnist", "better")]) == [changed.train]
    # The record says of itself what it is.
    (read,) = records.read(tmp_path, "psmnist")
    assert records.changed_settings(records.read_config(read)) == {"epochs": 60}
    assert records.find(tmp_path, before)["path"] == read["path"]


def test_what_does_not_affect_the_result_is_not_part_of_the_identity():
    place = {"device": "cuda", "data": "there", "devices": 2, "backend": "c", "save_every": 1.0}
    assert records.identity(SMALL.override(**place, recipe="other")) == records.identity(SMALL)
    others = [{"seed": 4}, {"steps": 21}, {"length": 11}, {"dt": 0.2}, {"clip": 0.5}, {"autocast": True}]
    others += [{"theory": True}, {"model": "gru"}, {"model": "antisymmetric"}]
    identities = {records.identity(SMALL.override(**other)) for other in others}
    assert len(identities | {records.identity(SMALL)}) == len(others) + 1
    assert records.group_identity(SMALL) == records.group_identity(replace(SMALL, seed=9))
    one = SMALL.override(model="antisymmetric", layer={"epsilon": 0.5})
    assert records.identity(one) != records.identity(SMALL.override(model="antisymmetric"))


def test_a_new_setting_with_a_default_leaves_every_identity_as_it_is(monkeypatch):
    runs = [one.train for recipes in RECIPES.values() for one in recipes.values()]
    before = [records.identity(one) for one in runs]

    @dataclass(frozen=True)
    class Optimiser(configuration.Optimiser):
        momentum: float = 0.0

    @dataclass(frozen=True)
    class Budget(configuration.Budget):
        minutes: int | None = None

    def grown(part, kind, **new):
        return kind(**{name: getattr(part, name) for name in vars(part)}, **new)

    for one, identity in zip(runs, before, strict=True):
        parts = {"optimiser": grown(one.optimiser, Optimiser), "budget": grown(one.budget, Budget)}
        assert records.identity(replace(one, **parts)) == identity
        parts["optimiser"] = grown(one.optimiser, Optimiser, momentum=0.5)
        assert records.identity(replace(one, **parts)) != identity


def test_identities_do_not_change_by_accident():
    """If one of these fails, every record of that task has become missing."""
    assert records.identity(resolve("adding")) == "5c9ca802428632f2"
    assert records.identity(resolve("har2", "better", seed=2)) == "09d0b9e23cbce396"
    assert records.identity(resolve("psmnist", "paper-128", model="lem")) == "47aaccbc0ee0d2b2"


def test_a_record_written_again_replaces_the_first(tmp_path, monkeypatch):
    first = records.write(failed(SMALL), tmp_path)
    second = records.write(failed(SMALL.override(recipe="paper")), tmp_path)
    assert first != second
    assert [one["path"] for one in records.read(tmp_path, "adding")] == [second]


def test_a_rival_records_the_constants_that_it_used():
    model = as_dictionary(resolve("adding", "paper", model="lem"))["model"]
    assert model == {"name": "lem", "hidden_size": 128, "num_layers": 1, "constants": {"dt": 0.0242}}


def test_the_source_of_a_record_is_checked_when_it_is_imported(tmp_path, monkeypatch):
    answers = {"a": "verified", "b": "ran other files than those of its commit"}
    monkeypatch.setattr(records, "check_source", lambda result: answers[result["commit"]])
    for commit, answer in answers.items():
        content = failed(SMALL)
        content["result"]["commit"] = commit
        (tmp_path / "elsewhere.json").write_text(json.dumps(content))
        path, found = import_record(tmp_path / "elsewhere.json", tmp_path / "results")
        assert found == answer
        assert bool(records.mark([json.loads(path.read_text())["result"]])) == (answer != "verified")


def test_the_models_of_a_comparison_are_added_when_it_is_imported(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "check_source", lambda row: "verified" if row["commit"] == "a" else "names no commit")

    def comparison(model, commit, trial=6):
        rows = {"trials": [{"trial": 0, "commit": "a"}], "finals": [{"seed": 1, "commit": commit}]}
        content = {"contest": "tiny", "trial": trial, "machines": [{"device": model}], "models": {model: rows}}
        (tmp_path / "elsewhere.json").write_text(json.dumps(content))
        return import_record(tmp_path / "elsewhere.json", tmp_path / "results")

    assert comparison("lstm", "b")[1] == "names no commit"
    path, found = comparison("gru", "a")
    assert (path, found) == (tmp_path / "results" / "compare" / "tiny.json", "verified")
    content = json.loads(path.read_text())
    assert {name: one["finals"][0]["source"] for name, one in content["models"].items()} == {
        "lstm": "names no commit",
        "gru": "verified",
    }
    assert [one["device"] for one in content["machines"]] == ["lstm", "gru"]
    with pytest.raises(ValueError, match=r"tiny.json belongs to another comparison: trial differ"):
        comparison("gru", "a", trial=7)


def test_a_comparison_that_was_stopped_early_does_not_replace_a_complete_one(tmp_path):
    def comparison(trials, finals):
        rows = {"trials": [{"trial": n} for n in range(trials)], "finals": [{"seed": n} for n in range(finals)]}
        file = tmp_path / "elsewhere.json"
        file.write_text(json.dumps({"contest": "tiny", "machines": [], "models": {"gru": rows}}))
        return import_record(file, tmp_path / "results")

    path, _ = comparison(2, 3)
    before = path.read_bytes()
    for trials, finals in ((1, 3), (2, 0)):
        with pytest.raises(ValueError, match=r"tiny.json has more trials or runs of gru: import the comparison once"):
            comparison(trials, finals)
    assert path.read_bytes() == before
    comparison(2, 4)


def test_models_of_a_comparison_that_did_not_change_keep_their_source(tmp_path):
    row = {"commit": None, "commit_one_of": ["a", "b"], "source": "one of several commits"}
    old = {"lstm": {"trials": [row], "finals": [row]}}
    (tmp_path / "compare").mkdir()
    (tmp_path / "compare" / "tiny.json").write_text(json.dumps({"contest": "tiny", "machines": [], "models": old}))
    new = {"gru": {"trials": [{"commit": None}], "finals": []}}
    content = {"contest": "tiny", "machines": [], "models": old | new}
    (tmp_path / "elsewhere.json").write_text(json.dumps(content))
    path, found = import_record(tmp_path / "elsewhere.json", tmp_path)
    assert found == "names no commit"
    assert json.loads(path.read_text())["models"]["lstm"] == old["lstm"]


def test_the_choice_of_a_protocol_is_imported_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "check_source", lambda result: "verified")
    choice = {"protocol": {"file": "a.json", "commit": "a"}, "config": {}, "commit": "a"}
    (tmp_path / "a-chosen.json").write_text(json.dumps(choice))
    path, found = import_record(tmp_path / "a-chosen.json", tmp_path / "results")
    assert (path, found) == (tmp_path / "results" / "protocols" / "a-chosen.json", "verified")


def test_another_measurement_keeps_its_name_when_it_is_imported(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "check_source", lambda result: "verified")
    (tmp_path / "speed.json").write_text('{"rows": [1], "commit": "a"}')
    path, found = import_record(tmp_path / "speed.json", tmp_path)
    assert (path, found) == (tmp_path / "speed.json", "verified")
    assert json.loads(path.read_text()) == {"rows": [1], "commit": "a", "source": "verified"}


def test_a_file_that_is_not_a_record_is_named(tmp_path):
    (tmp_path / "adding").mkdir()
    (tmp_path / "adding/x.json").write_text('{"config": {}}')
    with pytest.raises(ValueError, match=r"x.json is not a record: it has no 'result'"):
        records.read(tmp_path, "adding")
    (tmp_path / "adding/x.json").write_text('{"config": {"task": 1}, "result": {}}')
    with pytest.raises(ValueError, match=r"x.json is damaged: not a configuration"):
        records.missing(tmp_path, [SMALL])


def test_a_configuration_of_version_0_1_is_read():
    now = resolve("adding", "paper", length=50, model="lem", hidden_size=8, evaluate_every=5, data="here")
    settings = configuration.flat_settings(now)
    del settings["constants"], settings["evaluate_every"]
    before = {
        "task_name": "adding",
        "task": {"length": 50},
        "settings": {**settings, "dt": 0.1, "gamma": 1.0, "epsilon": 1.0},
        **{"recipe": "paper", "model": "lem", "layer": None, "evaluate_every": 5, "data": "here", "version": "0.1.0"},
    }
    assert from_dictionary(json.loads(json.dumps(before))) == now


@pytest.mark.parametrize("recipe", ["../../outside", "..\\outside", "C:outside", "a\0b\x1b[2J"])
def test_a_recipe_of_a_file_names_no_other_folder(recipe):
    name = records.name(replace(resolve("adding", length=12), recipe=recipe))
    assert not set(name) & set("/\\:\0\x1b")
