"""The protocol files of the repository: they can be read, and every trial and test run that they ask for is valid."""

from pathlib import Path

import pytest

from cornn._random import generator
from cornn.lab.experiments.protocol import read_protocol

FOLDER = Path(__file__).parents[3] / "results" / "protocols"
FILES = sorted(path for path in FOLDER.glob("*.json") if not path.stem.endswith("-chosen"))


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_trial_and_test_run_is_valid(path):
    found = read_protocol(path)
    search, random = found.search(path.stem), generator(0, "protocols", path.stem)
    for _ in range(20):
        values = {setting: draw.draw(random) for setting, draw in search.space.items()}
        assert search.base.override(**values).override(**found.finals).seed not in found.seeds
