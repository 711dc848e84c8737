import json

import pytest

from cornn import training
from cornn.report import records
from cornn.runs import create
from cornn.tasks import Adding
from cornn.training import usual


def test_a_record_is_what_the_run_folder_says_without_weights(tmp_path):
    run = training.fit(
        usual(Adding(10), hidden_size=4, steps=20, evaluate_every=10, until=0, device="cpu", seed=3), tmp_path / "run"
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
