"""Saved folders: what was written is read back, and one wrong bit anywhere is noticed or makes no difference."""

import io
import json
import os
import random
import re
import shutil
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from damage import FILES, flip_bit, small_model, use, use_or_sentence, write_folders

from cornn import artifacts
from cornn._checksums import (
    DamagedFileError,
    UncheckedFileWarning,
    pack_tensors,
    read_sealed_json,
    seal_zip,
    unpack_tensors,
    write_sealed_json,
)
from cornn.fitting.folder import load_fitted
from cornn.lab.runs import Run, create, open_run, save_checkpoints


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A finished run, an interrupted run, and a fitted estimator."""
    root = tmp_path_factory.mktemp("saved")
    write_folders(root)
    return root


@pytest.mark.parametrize("flips", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_flipped_bit_is_noticed_or_harmless(folders, tmp_path, flips):
    draw, noticed = random.Random(1), 0
    shutil.copy(folders / "data.csv", tmp_path / "data.csv")
    expected = {name: use(folders / name) for name in FILES}
    cases = [(name, file) for name, files in FILES.items() for file in files]
    for name in FILES:
        shutil.copytree(folders / name, tmp_path / name)
    for number in range(flips):
        name, file = cases[number % len(cases)]
        path = tmp_path / name / file
        whole = path.read_bytes()
        path.write_bytes(flip_bit(whole, draw))
        found, sentence = use_or_sentence(tmp_path / name)
        if sentence is None:
            assert found == expected[name], (name, file)
        else:
            assert len(sentence.splitlines()) == 1
            assert name in sentence
            noticed += 1
        path.write_bytes(whole)
    assert noticed > 0.9 * flips  # the others are white space in JSON


def test_a_damaged_checkpoint_says_that_the_previous_one_is_kept(folders, tmp_path):
    shutil.copytree(folders / "interrupted", tmp_path / "run")
    path = tmp_path / "run/checkpoint.pt"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(DamagedFileError, match=r"checkpoint\.pt is damaged or truncated: the previous .* is kept: `mv"):
        Run(tmp_path / "run").checkpoint()
    os.replace(tmp_path / "run/checkpoint-before.pt", path)
    assert Run(tmp_path / "run").checkpoint()["step"] == 1


def test_rows_that_a_checkpoint_refers_to_must_be_there(folders, tmp_path):
    """As after a power cut on a file system that lost them."""
    shutil.copytree(folders / "interrupted", tmp_path / "run")
    metrics = tmp_path / "run/metrics.jsonl"
    metrics.write_text(metrics.read_text().splitlines(keepends=True)[0])
    with pytest.raises(DamagedFileError, match=r"metrics\.jsonl is damaged: it lacks rows .* previous checkpoint"):
        Run(tmp_path / "run").checkpoint()
    assert Run(tmp_path / "run").checkpoint(before=True)["step"] == 1


def test_metrics_are_on_the_disk_before_a_checkpoint_refers_to_them(tmp_path, monkeypatch):
    run = create(tmp_path, {})
    run.log({"step": 1, "metric": 0.5})
    order = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (order.append(os.readlink(f"/proc/self/fd/{file}")), fsync(file)))
    monkeypatch.setattr(os, "replace", lambda old, new: (order.append(f"replace {new}"), replace(old, new)))
    save_checkpoints([(run, {"step": 1})])
    names = [name.split("/")[-1] for name in order]
    assert names[0] == "metrics.jsonl"
    assert names[-1] == "checkpoint.pt"


@pytest.mark.parametrize("stop", range(1, 8))
def test_a_run_that_is_killed_while_it_finishes_is_complete_or_resumes(tmp_path, monkeypatch, stop):
    """Stopped before its n-th change of a name, a folder is complete or has its checkpoint, and never half a result."""
    run = create(tmp_path, {})
    save_checkpoints([(run, {"step": 1})])
    calls, replace = [], os.replace

    def killed(old, new):
        calls.append(new)
        if len(calls) == stop:
            raise KeyboardInterrupt
        replace(old, new)

    monkeypatch.setattr(os, "replace", killed)
    model = small_model()
    try:
        run.save_model(model, model.state_dict())
        run.save_result({"test": 1.0})
        finished = True
    except KeyboardInterrupt:
        finished = False
    monkeypatch.undo()
    again = open_run(tmp_path)
    assert again.complete is finished
    assert (again.result is not None) is finished
    assert again.checkpoint() == {"step": 1}


@pytest.mark.parametrize("metrics", [5, {}, {"bytes": "x", "sha256": ""}, {"bytes": 1, "sha256": 2}], ids=str)
def test_a_checkpoint_that_describes_no_metrics_is_one_sentence(folders, tmp_path, metrics):
    shutil.copytree(folders / "interrupted", tmp_path / "run")
    content = io.BytesIO()
    torch.save({"step": 1, "metrics": metrics}, content)
    (tmp_path / "run/checkpoint.pt").write_bytes(seal_zip(content.getvalue()))
    with pytest.raises(ValueError, match=r"checkpoint\.pt is damaged: "):
        Run(tmp_path / "run").checkpoint()


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="no devices among the files of this system")
@pytest.mark.parametrize("file", ["artifact.json", "config.json", "model.safetensors"])
def test_a_link_to_a_device_is_not_read(folders, tmp_path, file):
    shutil.copytree(folders / "estimator", tmp_path / "fitted")
    (tmp_path / "fitted" / file).unlink()
    (tmp_path / "fitted" / file).symlink_to("/dev/null")
    with pytest.raises(OSError, match=rf"cannot read .*{file} \(it is a device or a pipe, not a file\)"):
        load_fitted(tmp_path / "fitted")


def test_a_header_of_nested_lists_is_one_sentence(tmp_path):
    content = struct.pack("<Q", 200_000) + b"[" * 200_000
    with pytest.raises(DamagedFileError, match=r"a is not a valid safetensors file .*: again"):
        unpack_tensors(content, tmp_path / "a", remedy="again")


def test_names_in_a_manifest_stay_in_the_folder(folders, tmp_path):
    shutil.copytree(folders / "finished", tmp_path / "run")
    artifacts.write_manifest(tmp_path / "run", "run", {"../outside": "0"})
    with pytest.raises(DamagedFileError, match=r"lists '\.\./outside', which is not the name of a file in the folder"):
        artifacts.load(tmp_path / "run")


@pytest.mark.parametrize(
    ("file", "remedy"),
    [("config.json", "model.safetensors can still be used on its own"), ("model.safetensors", "fit the model again")],
)
def test_a_file_that_is_missing_has_a_remedy(folders, tmp_path, file, remedy):
    shutil.copytree(folders / "estimator", tmp_path / "fitted")
    (tmp_path / "fitted" / file).unlink()
    with pytest.raises(FileNotFoundError, match=f"{file} is missing: .*{remedy}"):
        load_fitted(tmp_path / "fitted")


def test_a_later_format_says_what_to_install(folders, tmp_path):
    shutil.copytree(folders / "finished", tmp_path / "run")
    content = read_sealed_json(tmp_path / "run/artifact.json")
    write_sealed_json(tmp_path / "run/artifact.json", content | {"format": 99})
    with pytest.raises(ValueError, match="has format 99, this version reads up to 2"):
        artifacts.load(tmp_path / "run")


def test_files_without_checksums_load_with_one_warning(folders, tmp_path):
    shutil.copytree(folders / "finished", tmp_path / "run")
    (tmp_path / "run/artifact.json").unlink()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        artifacts.load_run(tmp_path / "run").model()
    assert [type(own.message) for own in caught] == [UncheckedFileWarning]


def test_a_single_file_carries_its_checksum(tmp_path):
    content = pack_tensors({"a": np.arange(5.0)}, {"note": "x"})
    arrays, metadata = unpack_tensors(content, tmp_path / "a", remedy="again")
    assert (arrays["a"].tolist(), metadata) == ([0, 1, 2, 3, 4], {"note": "x"})
    with pytest.raises(DamagedFileError, match="does not match its checksum"):
        unpack_tensors(content[:-1] + b"\1", tmp_path / "a", remedy="again")


def test_sealed_json(tmp_path):
    path = tmp_path / "a.json"
    write_sealed_json(path, {"seeds": [0, 1], "x": 1.5})
    assert read_sealed_json(path) == {"seeds": [0, 1], "x": 1.5}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"x": 1.6}))
    with pytest.raises(DamagedFileError, match=r"a\.json is damaged: its content does not match its checksum"):
        read_sealed_json(path)


@pytest.mark.filterwarnings("ignore:.*has no checksum")
def test_damage_of_a_folder_without_checksums_is_one_sentence(cornn, tmp_path):
    """As of version 0.1.0: rows without a step, a result of another type, a truncated checkpoint."""
    saved = Path(__file__).parent / "fixtures" / "0.1.0"
    cases = [
        ("run-interrupted", "metrics.jsonl", "resume", lambda text: text + b'{"x": 1}\n'),
        ("run-interrupted", "metrics.jsonl", "resume", lambda text: text.replace(b'"metric"', b'"metrix"', 1)),
        ("run-interrupted", "checkpoint.pt", "resume", lambda text: text[:3000]),
        ("run-interrupted", "config.json", "resume", lambda text: text.replace(b'"hidden_size"', b'"hiden_size"')),
        ("run-finished", "result.json", "evaluate", lambda text: re.sub(rb'"test": [^,]*', b'"test": {}', text)),
        ("run-finished", "model.safetensors", "evaluate", lambda text: text[:50]),
        ("run-finished", "config.json", "evaluate", lambda text: re.sub(rb'"steps": [^,]*', b'"steps": "x"', text)),
        ("run-finished", "config.json", "check", lambda text: re.sub(rb'"steps": [^,]*', b'"steps": []', text)),
        ("run-rival", "model.safetensors", "check", lambda text: text.replace(b"l0.weight_ih", b"l0.weight_xx")),
    ]
    for number, (folder, file, command, damage) in enumerate(cases):
        shutil.copytree(saved / folder, tmp_path / str(number))
        path = tmp_path / str(number) / file
        path.write_bytes(damage(path.read_bytes()))
        code, _, err = cornn(command, tmp_path / str(number))
        assert code == 2, (file, err)
        assert len(err.splitlines()) == 1, err
        assert f"{tmp_path / str(number)}/" in err, err
