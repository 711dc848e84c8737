"""The house: which module may use which, what a bare install needs, and how long the import takes."""

import ast
import subprocess
import sys
from pathlib import Path

import cornn

SOURCE = Path(cornn.__file__).parent

# Imports point upwards only: a module may use those above it, never those below it.
FLOORS = [
    ["functional", "constants", "precision", "seeds", "writing"],
    ["engine"],
    ["streaming"],
    ["stacking"],
    ["layers"],
    ["baselines"],
    ["__init__"],
    ["theory"],
    ["models"],
    ["data"],
    ["tasks"],
    ["paper"],
    ["runs"],
    ["training"],
    ["search"],
    ["estimators"],
    ["export"],
    ["files"],
    ["report"],
    ["fitting"],
    ["reproduce", "compare"],
    ["bench"],
    ["cli"],
    ["__main__"],
]
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}


def imports(path: Path) -> set[str]:
    """The modules of this package that a file imports, by their first name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "cornn":
            found |= {alias.name if alias.name in FLOOR else "__init__" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("cornn."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("cornn.")}
    return found


def test_imports_point_upwards_only():
    for path in SOURCE.rglob("*.py"):
        own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        assert own in FLOOR, f"{path.name} has no floor in the house"
        for other in imports(path) - {own}:
            assert FLOOR[other] < FLOOR[own], f"{path.relative_to(SOURCE)} uses {other}, which is below it"


def test_the_bare_layer_needs_nothing_of_the_laboratory():
    optional = [
        "lightning_fabric",
        "tyro",
        "rich",
        "scipy",
        "beartype",
        "matplotlib",
        "optuna",
        "cuda.core",
        "sklearn",
        "pandas",
        "pyarrow",
        "onnx",
        "huggingface_hub",
    ]
    code = f"import sys, cornn; print([name for name in {optional} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_import_loads_no_compiler():
    """It takes a second, and whoever compiles a model loads it anyway."""
    code = "import sys, cornn; print('torch._dynamo' in sys.modules, 'sympy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_public_surface_is_documented():
    for name in cornn.__all__:
        assert name.startswith("__") or getattr(cornn, name).__doc__, name
