"""Published figures, recipes, ranges, contests, plans and cases of benchmarks, compared with those that were stored.

They are entered by hand, and a wrong digit would pass every other test. If a change is meant, run
`python tests/lab/test_settings.py`, which writes the file, and look at the difference.
"""

import json
from pathlib import Path

from cornn.lab.bench import CASES, LOOPS, SWEEPS
from cornn.lab.config import as_dictionary
from cornn.lab.experiments.compare import CONTESTS
from cornn.lab.experiments.reproduce import TARGETS
from cornn.lab.recipes import PUBLISHED, RANGES, RECIPES
from cornn.lab.recipes.published import ELSEWHERE, LOGS
from cornn.lab.recipes.ranges import ENTRANTS, TUNED

STORED = Path(__file__).parents[1] / "fixtures" / "settings.json"


def texts(table: dict) -> dict[str, str]:
    return {str(name): str(value) for name, value in table.items()}


def collect() -> dict:
    tables = {"published": PUBLISHED, "elsewhere": ELSEWHERE, "logs": LOGS, "tuned": TUNED, "entrants": ENTRANTS}
    tables |= {"ranges": RANGES, "contests": CONTESTS, "cases": CASES, "loops": LOOPS, "sweeps": SWEEPS}
    recipes = {
        f"{task} {name}": as_dictionary(recipe.train) for task, own in RECIPES.items() for name, recipe in own.items()
    }
    plans = {target: [(one.name, list(one.seeds)) for one in make()] for target, make in TARGETS.items()}
    found = {name: texts(table) for name, table in tables.items()}
    return found | {"recipes": recipes, "plans": plans}


def test_settings_are_those_that_were_stored():
    found, stored = json.loads(json.dumps(collect())), json.loads(STORED.read_text(encoding="utf8"))
    assert found.keys() == stored.keys()
    for table, rows in found.items():
        for name, row in rows.items():
            assert row == stored[table].get(name), (table, name)
        assert rows.keys() == stored[table].keys()


if __name__ == "__main__":
    STORED.write_text(json.dumps(collect(), indent=1) + "\n", encoding="utf8")
