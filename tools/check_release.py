"""Check that everything agrees on the version before a release, or print its notes.

python tools/check_release.py v0.2.0             # exits with 1 and says why, if something does not agree
python tools/check_release.py v0.2.0 --notes     # the section of CHANGELOG.md
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def find_problems(tag: str) -> list[str]:
    """Return what has to be changed before the tag can be released."""

    def read(name: str) -> str:
        return (ROOT / name).read_text(encoding="utf8")

    version = tag.removeprefix("v")
    stated = re.search(r'^__version__ = "(.*)"', read("src/cornn/_version.py"), re.MULTILINE)[1]
    cited = re.search(r"^version: (.*)", read("CITATION.cff"), re.MULTILINE)[1]
    problems = []
    if not re.fullmatch(r"v\d+\.\d+\.\d+((a|b|rc)\d+)?", tag):
        problems.append(f"the tag {tag} is not of the form v1.2.3 or v1.2.3rc1")
    if stated != version:
        problems.append(f"src/cornn/_version.py has the version {stated}, the tag is {tag}")
    if cited != version:
        problems.append(f"CITATION.cff has the version {cited}, the tag is {tag}")
    if not find_notes(version):
        problems.append(f'CHANGELOG.md has no section "## [{version}]"')
    return problems


def find_notes(version: str) -> str:
    """Return the section of the changelog about a version, without its heading."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf8")
    match = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tag", help="such as v0.2.0")
    parser.add_argument("--notes", action="store_true", help="print the section of CHANGELOG.md")
    options = parser.parse_args()
    if problems := find_problems(options.tag):
        sys.exit("\n".join(problems))
    print(find_notes(options.tag.removeprefix("v")) if options.notes else f"{options.tag} can be released")


if __name__ == "__main__":
    main()
