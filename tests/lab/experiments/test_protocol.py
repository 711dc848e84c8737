"""The protocol that cannot leak: what each step needs, and what is refused."""

import json
import shutil
import subprocess

import pytest

from cornn import _source
from cornn.lab.experiments.protocol import check_committed, read_protocol
from cornn.lab.experiments.worker import LockedSplitError, lock_test
from cornn.lab.recipes import resolve

CONTENT = {
    "target": "adding over 10 steps, 4 neurons: mean squared error below 1",
    "task": "adding",
    "recipe": "paper",
    "settings": {"length": 10, "hidden_size": 4, "steps": 6, "evaluate_every": 3},
    "space": {
        "learning_rate": [1e-3, 1e-2],
        "clip": {"one of": [0.5, 1.0]},
        "epsilon": {"uniform": [1.0, 5.0]},
        "half_lives": {"pair": [[0.1, 1.0], [1.0, 10.0]]},
    },
    "trials": 2,
    "finals": {"steps": 9},
    "seeds": [1, 2],
}
QUIET = ("--device", "cpu", "--quiet")


@pytest.fixture
def repository(tmp_path):
    """A repository with a protocol file, and a function that commits all."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")

    def git(*arguments):
        identity = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", tmp_path, *identity, *arguments], check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "small.json").write_text(json.dumps(CONTENT), encoding="utf8")

    def commit():
        git("add", "small.json", *[path.name for path in tmp_path.glob("*-chosen.json")])
        git("commit", "-qm", "a step")

    return commit


def test_a_trial_cannot_open_the_test_split():
    task = lock_test(resolve("adding", length=10).task.load(0))
    with pytest.raises(LockedSplitError, match="a trial asked for the test split of adding"):
        task.test()


def test_the_steps_of_a_protocol(cornn, tmp_path, repository):
    def refused(sentence):
        code, _, err = cornn("protocol", "small.json", *QUIET)
        assert code == 2
        assert sentence in err

    refused("small.json is not committed: a protocol is valid only once it is committed")
    repository()
    assert "2 trials by validation; the test split is locked" in cornn("protocol", "small.json", "--dry-run")[1]
    assert not (tmp_path / "runs").exists()
    code, out, err = cornn("protocol", "small.json", *QUIET)
    assert code == 0, err
    assert "commit small-chosen.json, then run the same command" in out
    choice = json.loads((tmp_path / "small-chosen.json").read_text())
    assert choice["trial"] in (0, 1)
    assert choice["config"]["optimiser"]["learning_rate"] == choice["values"]["learning_rate"]
    assert choice["config"]["budget"]["steps"] == 9
    assert not (tmp_path / "results").exists()
    refused("small-chosen.json is not committed")
    repository()
    (tmp_path / "small-chosen.json").write_text(json.dumps(choice | {"trial": 7}))
    refused("small-chosen.json has changes that are not committed")
    # Settings that no trial had.
    optimiser = choice["config"]["optimiser"] | {"learning_rate": 0.5}
    edited = choice | {"config": choice["config"] | {"optimiser": optimiser}}
    (tmp_path / "small-chosen.json").write_text(json.dumps(edited))
    repository()
    refused("its config is not that of trial")
    (tmp_path / "small-chosen.json").write_text(json.dumps(choice, indent=2) + "\n")
    repository()
    code, out, err = cornn("protocol", "small.json", *QUIET)
    assert code == 0, err
    assert "test trial" in out
    records = [json.loads(path.read_text()) for path in (tmp_path / "results/adding").iterdir()]
    assert sorted(record["config"]["seed"] for record in records) == [1, 2]
    assert all(record["result"]["protocol"]["commit"] == choice["protocol"]["commit"] for record in records)
    # Each seed is tested once.
    code, out, _ = cornn("protocol", "small.json", *QUIET)
    assert "complete" in out
    # Tested runs whose records are gone are not tested again, and not taken for complete.
    next((tmp_path / "results/adding").iterdir()).unlink()
    refused("have no record under results: copy the records of the worker that ran them, or choose another --folder")
    # A protocol that is changed after the choice is another one.
    (tmp_path / "small.json").write_text(json.dumps(CONTENT | {"seeds": [3]}), encoding="utf8")
    refused("small.json has changes that are not committed")
    repository()
    refused("small-chosen.json belongs to another protocol (the protocol was committed again after the choice)")


def test_without_git_the_stamp_says_what_is_committed(tmp_path, monkeypatch):
    file = tmp_path / "results/protocols/small.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(CONTENT), encoding="utf8")
    with pytest.raises(ValueError, match="is not committed"):
        check_committed(file)
    stamp = {"protocols": {"results/protocols/small.json": {"blob": _source._blob(file.read_bytes()), "commit": "abc"}}}
    (tmp_path / "source-stamp.json").write_text(json.dumps(stamp))
    monkeypatch.setattr(_source, "STAMP", tmp_path / "source-stamp.json")
    assert check_committed(file) == "abc"
    file.write_text(json.dumps(CONTENT | {"trials": 3}), encoding="utf8")
    with pytest.raises(ValueError, match="is not committed"):
        check_committed(file)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"seeds": [0, 1]}, "seeds must not be empty or contain the seed of the search, 0"),
        ({"space": {}}, "the space of a protocol must not be empty"),
        (
            {"space": {"dt": "any"}},
            "the space of dt must be [lowest, highest] or an object with one of uniform, one of",
        ),
        ({"space": {"dt": [0.1, 0.01]}}, "got [0.1, 0.01]: a range must be two finite numbers, the lowest first"),
        ({"space": {"dt": [0, 0.1]}}, "got [0, 0.1]: a range that is drawn log-uniformly must lie above 0"),
        ({"space": {"clip": {"one of": "ab"}}}, "the space of clip must be [lowest, highest] or an object with"),
        ({"space": {"clip": {"one of": []}}}, "the space of clip must be [lowest, highest] or an object with"),
        ({"space": {"clap": [0.1, 1]}}, "the task adding has no setting 'clap'"),
        ({"finals": {"step": 9}}, "the task adding has no setting 'step'"),
        ({"seeds": [1, 1]}, "seeds must be distinct, got [1, 1]"),
        ({"seeds": [-1]}, "seed must not be below 0, got -1"),
        ({"trials": 0}, "trials must be above 0, got 0"),
        ({"tests": 3}, "the protocol has no setting 'tests'"),
        ({"task": "chess"}, "unknown task 'chess'"),
    ],
)
def test_a_protocol_that_makes_no_sense(tmp_path, changes, sentence):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(CONTENT | changes), encoding="utf8")
    with pytest.raises(ValueError) as error:  # noqa: PT011
        read_protocol(path).search("small")
    assert sentence in str(error.value)


def test_a_folder_is_not_a_protocol(tmp_path):
    with pytest.raises(OSError, match=r"cannot read .*: pass a protocol such as"):
        read_protocol(tmp_path)


def test_a_uniform_range_may_begin_at_0(tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(CONTENT | {"space": {"weight_decay": {"uniform": [0, 1]}}}), encoding="utf8")
    experiment = read_protocol(path).search("small")
    values = [experiment.values(number)["weight_decay"] for number in range(20)]
    assert 0 <= min(values) < 0.2
    assert 0.8 < max(values) <= 1
