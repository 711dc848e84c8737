"""The notebooks: valid and without outputs, linked, and run cell by cell without Jupyter."""

import ast
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
NEEDS = {
    "drop_in": ("matplotlib",),
    "forecast": ("sklearn", "matplotlib"),
    "irregular_sensors": ("sklearn", "matplotlib"),
    "microcontroller": ("sklearn",),
}
"""Notebook -> packages of extras without which it cannot be run."""


def read(name: str) -> dict:
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf8"))


def sources(name: str, kind: str) -> list[str]:
    return ["".join(cell["source"]) for cell in read(name)["cells"] if cell["cell_type"] == kind]


def test_every_notebook_is_listed():
    assert sorted(NEEDS) == NAMES
    for page in ("README.md", "docs/notebooks.md"):
        text = (ROOT / page).read_text(encoding="utf8")
        assert set(re.findall(r"notebooks/(\w+)\.ipynb", text)) == set(NAMES), page


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_stored_without_outputs(name):
    """In the format that Jupyter writes, so that an edit changes what was edited."""
    book = read(name)
    assert (FOLDER / f"{name}.ipynb").read_text(encoding="utf8") == json.dumps(
        book, indent=1, ensure_ascii=False
    ) + "\n"
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    for cell in book["cells"]:
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | (
            {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        )
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
            ast.parse("".join(cell["source"]))


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_opens_in_colab_and_installs_cornn_there(name):
    first, install = sources(name, "markdown")[0], sources(name, "code")[0]
    repository = re.search(r"git\+https://github\.com/(\w+/\w+)", install)
    assert repository
    badge = rf"https://colab.research.google.com/github/{repository[1]}/blob/main/examples/notebooks/{name}.ipynb"
    assert f"]({badge})" in first
    assert 'find_spec("cornn") is None' in install


@pytest.mark.parametrize("name", NAMES)
def test_links_of_a_notebook_hold(name):
    for target in re.findall(r"\]\(([^)#\s]+)", "\n".join(sources(name, "markdown"))):
        assert target.startswith("https://") or (FOLDER / target).exists(), target


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs(name, tmp_path, monkeypatch):
    for package in NEEDS[name]:
        pytest.importorskip(package)
    if "matplotlib" in NEEDS[name]:
        import matplotlib

        matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "__main__"}
    for number, source in enumerate(sources(name, "code")):
        exec(compile(source, f"{name}, code cell {number}", "exec"), names)
