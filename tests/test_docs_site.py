"""The site is built strictly, needs nothing of other servers, and has every public name; links of the README hold."""

import inspect
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import cornn
from cornn import theory

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf8")


class Page(HTMLParser):
    """What a page loads, what it links to, and the names in it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.anchors.add(given["id"] or "")
        if tag in ("script", "img", "iframe", "source"):
            self.loaded.append(given.get("src") or "")
        if tag == "link" and given.get("rel") in ("stylesheet", "preconnect", "icon"):
            self.loaded.append(given.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason='the site needs mkdocs: pip install "cornn[docs]"')
    pytest.importorskip("material", reason='the site needs mkdocs-material: pip install "cornn[docs]"')
    pytest.importorskip("mkdocstrings", reason='the site needs mkdocstrings: pip install "cornn[docs]"')
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_text(encoding="utf8") for path in folder.glob("*.html")}


def public_names() -> dict[str, set[str]]:
    """Name -> the places at which it may be described: where it is public, and where it is defined."""
    from cornn import estimators

    names = {"cornn.engine.run": {"cornn.engine.run"}}
    for package in (cornn, estimators, theory):
        for name in package.__all__:
            value = getattr(package, name)
            public = f"{package.__name__}.{name}"
            if value in (estimators, theory):
                continue  # each has a page of its own
            if inspect.ismodule(value):
                names[public] = {value.__name__}
            elif callable(value):
                names[public] = {public, f"{value.__module__}.{value.__qualname__}"}
    return names


@pytest.mark.slow
def test_every_page_is_there_and_loads_nothing_from_elsewhere(site):
    assert {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")} <= set(site)
    for name, text in site.items():
        assert not [place for place in Page(text).loaded if re.match(r"(https?:)?//", place)], name


@pytest.mark.slow
def test_the_api_has_every_public_name(site):
    pytest.importorskip("sklearn")
    anchors = set().union(*(Page(text).anchors for name, text in site.items() if name.startswith("api")))
    assert [name for name, places in public_names().items() if not places & anchors] == []


@pytest.mark.slow
def test_arguments_of_the_layer_are_a_list(site):
    assert re.search(r'<li class="doc-section-item field-body">\s*<b><code>damping</code></b>', site["api.html"])


def test_the_api_has_every_setting_of_the_estimators():
    """A setting is described by the class that has it, or by a base class on the same page."""
    pytest.importorskip("sklearn")
    from cornn import estimators

    page = (ROOT / "docs/api-estimators.md").read_text(encoding="utf8")
    for model in (estimators.CoRNNClassifier, estimators.CoRNNRegressor, estimators.CoRNNForecaster):
        places = {model: f"cornn.estimators.{model.__name__}"}
        places |= {base: f"{base.__module__}.{base.__qualname__}" for base in model.__mro__[1:]}
        text = "\n".join(base.__doc__ or "" for base, name in places.items() if f"::: {name}\n" in page)
        missing = [name for name in model().get_params() if not re.search(rf"^ +{name}: ", text, re.MULTILINE)]
        assert missing == [], model


def test_links_of_the_readme_hold():
    for target in re.findall(r"\]\(\s*([^)#\s]+)", README):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_the_readme_links_to_every_page():
    paths = (ROOT / "docs").glob("*.md")
    pages = {f"docs/{path.name}" for path in paths if not path.name.startswith(("api-", "appendix-"))}
    assert pages <= set(re.findall(r"\]\(\s*([^)#\s]+)", README))
