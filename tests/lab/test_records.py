import json
from dataclasses import asdict, replace

import pytest

from cornn.lab import records, training
from cornn.lab.recipes import RECIPES, resolve
from cornn.lab.runs import create


def test_a_record_is_what_the_run_folder_says_without_weights(tmp_path):
    run = training.fit(
        resolve("adding", length=10, hidden_size=4, steps=20, evaluate_every=10, until=0, device="cpu", seed=3),
        tmp_path / "run",
    )
    content = records.record(run)
    assert records.name(content) == "ours-length-10-steps-20-until-0-cornn4-seed3.json"
    path = records.write(content, tmp_path / "results")
    assert path == tmp_path / "results/adding/ours-length-10-steps-20-until-0-cornn4-seed3.json"
    (read,) = records.read(tmp_path / "results", "adding")
    assert read == json.loads(json.dumps(content))
    assert read["result"] == run.result
    assert read["curve"]["step"] == [10, 20]
    assert read["curve"]["metric"] == pytest.approx([row["metric"] for row in run.metrics()], rel=1e-5)


def test_a_run_that_has_not_finished_has_no_record(tmp_path):
    with pytest.raises(ValueError, match=r"has no result.json: its training has not finished"):
        records.record(create(tmp_path, {}))


def test_a_long_name_is_cut_and_stays_its_own(tmp_path):
    """A name of more than 255 bytes cannot be written, and the record would be lost."""
    settings = asdict(replace(RECIPES["psmnist"]["paper"], half_lives=(0.123456789012, 9.87654321), trainable=("dt",)))
    long = {name: value + 0.123456789012 if isinstance(value, float) else value for name, value in settings.items()}
    configs = [
        {
            "task_name": "psmnist",
            "task": {"shift": 1},
            "settings": long | {"clip": clip},
            "recipe": "paper",
            "seed": 10**9,
        }
        for clip in (1.5, 2.5)
    ]
    names = [records.name({"config": config}) for config in configs]
    assert names[0] != names[1]
    assert all(len(name.encode()) <= 240 and name.endswith("-seed1000000000.json") for name in names)
    path = records.write({"config": configs[0], "result": {}}, tmp_path)
    assert records.read(tmp_path, "psmnist", path.name.rsplit("-seed", 1)[0]) != []
