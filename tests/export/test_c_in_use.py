"""Exported C where it is used: the program's commands, and emulated microcontrollers."""

import re

import numpy as np
import pytest
from c_models import ROOT, SHAPES, build, needs_emulator, needs_gcc
from tolerances import FLOAT32

from cornn.export.c import COptions, cortex, host, to_c
from cornn.export.c.source import render

LAST_PRODUCT = {"rtol": 2e-7, "atol": 1e-7}  # one rounding of float32


@needs_gcc
def test_the_guides_commands(cornn, tmp_path):
    """Those of docs/export.md: the exports are run, the trainings, which need data, are dry runs."""
    text = (ROOT / "docs" / "export.md").read_text(encoding="utf8").split("\n## C for")[1]
    train = "train adding --length 20 --hidden-size 8 --steps 20 --quiet --out runs/small"
    code, _, error = cornn(*train.split())
    assert code == 0, error
    exports = re.findall(r"^cornn (export .* --to c.*?)(?: +#.*)?$", text, re.MULTILINE)
    assert len(exports) == 2
    for command in exports:
        code, out, error = cornn(*command.split(), "--sequences", 50, "--largest-loss", 50)
        assert code == 0, error
        assert "compiled without warnings; on 50 of 1,000 test sequences (50 of them also under the sanitizers)" in out
        assert "multiplications per step" in out
    assert "int8_t" in (tmp_path / "small-int8" / "model.c").read_text()
    assert "int8_t" not in (tmp_path / "runs" / "small" / "c" / "model.c").read_text()
    trainings = re.findall(r"^cornn (train .*)$", text, re.MULTILINE)
    assert len(trainings) == 3
    for command in trainings:
        assert '"name": "har2"' in cornn(*command.split(), "--data", "nowhere", "--dry-run")[1], command
    code, _, error = cornn(*exports[0].split(), "--data", "some.csv")
    assert code == 2
    assert "--data is only for a model of `cornn fit`" in error


@needs_gcc
def test_of_a_fitted_file_on_the_command_line(cornn, tmp_path):
    random = np.random.default_rng(0)
    kinds = random.integers(0, 2, 40)
    table = np.sin(np.linspace(0, 9, 30) * (1 + kinds[:, None])) + 0.1 * random.normal(size=(40, 30))
    rows = [",".join([*(f"t{n}" for n in range(30)), "kind"])]
    rows += [",".join([*(f"{value:.4f}" for value in row), "1x"[kind]]) for row, kind in zip(table, kinds, strict=True)]
    (tmp_path / "waves.csv").write_text("\n".join(rows) + "\n")
    fit = "fit waves.csv --target kind --method network --hidden-size 8 --epochs 5 --no-report --out fitted"
    code, _, error = cornn(*fit.split())
    assert code == 0, error
    export_it = ("export", "fitted", "--to", "c", "--weights", "int8")
    code, out, error = cornn(*export_it, "--data", "waves.csv", "--largest-loss", 10)
    assert code == 0, error
    assert "on 40 sequences of the data" in out
    # A file with numbers only has the classes of the model, which are strings.
    (tmp_path / "ones.csv").write_text("\n".join([rows[0], *(row for row in rows if row.endswith(",1"))]) + "\n")
    code, out, error = cornn(*export_it, "--data", "ones.csv", "--largest-loss", 100)
    assert code == 0, error
    assert re.search(r"^accuracy: PyTorch [1-9]", out, re.MULTILINE), out
    code, _, error = cornn(*export_it, "--out", "other")
    assert (code, "calibration: pass --data, in the layout" in error) == (2, True)


@needs_gcc
def test_a_limit_needs_labels_only_if_neurons_are_dropped(cornn, tmp_path):
    random = np.random.default_rng(0)
    header, values = ",".join(f"t{n}" for n in range(10)), random.normal(size=(24, 10)).round(3)
    rows = [",".join(map(str, row)) for row in values]
    (tmp_path / "new.csv").write_text("\n".join([header, *rows]))
    (tmp_path / "old.csv").write_text("\n".join([f"{header},y", *(f"{row},{n % 2}" for n, row in enumerate(rows))]))
    fit = "fit old.csv --target y --neurons 32 --causal --scaling set --no-report --out fitted"
    assert cornn(*fit.split())[0] == 0
    limited = ("export", "fitted", "--to", "c", "--data", "new.csv", "--max-flash")
    code, _, error = cornn(*limited, 100_000)
    assert code == 0, error
    code, _, error = cornn(*limited, 3_000)
    assert code == 2
    assert "raise --max-flash to " in error
    assert "or pass --data with the labelled training data" in error


@needs_gcc
@needs_emulator
@pytest.mark.parametrize(
    ("shape", "weights", "processor"),
    [
        pytest.param("sizes that four does not divide", "float32", "cortex-m4", marks=pytest.mark.slow),
        ("sizes that four does not divide", "int8", "cortex-m4"),
        pytest.param("sizes that four does not divide", "int8", "cortex-m3", marks=pytest.mark.slow),
        pytest.param("words", "int8", "cortex-m4", marks=pytest.mark.slow),
    ],
)
def test_on_an_emulated_microcontroller(shape, weights, processor, tmp_path):
    """With the processor's instructions for pairs of 16 bits and without, whole numbers are as they are here."""
    model, data = build(**SHAPES[shape])
    to_c(model, tmp_path, COptions(weights=weights), data)
    kind = np.uint32 if "words" in shape else np.float32
    sequences = [np.ascontiguousarray(row) for row in data.transpose(0, 1)[:4].numpy().astype(kind)]
    found = cortex.measure(tmp_path, sequences, model.head.out_features, processor)
    sample = "uint32_t sample" if "words" in shape else "float sample[MODEL_INPUTS]"
    values = {"sample": sample, "address": "&" * ("words" in shape), "every": 0, "span": ""}
    (tmp_path / "here.c").write_text(render("check.c.in", values))
    host.compile_program(tmp_path, tmp_path / "here", sanitized=False)
    here = host.run_program(tmp_path / "here", sequences, model.head.out_features)
    # float32 sums are fused there, and so is the last product of int8, with the head's scale.
    np.testing.assert_allclose(found.answers, here, **(FLOAT32 if weights == "float32" else LAST_PRODUCT))
    assert found.ram == 0
    assert 0 < found.stack < 400
    products = sum(cell.weight_ih.numel() + cell.weight_hh.numel() for cell in model.layer.cells.values())
    assert products < found.instructions < 30 * products


@needs_emulator
def test_instructions_are_counted_exactly(tmp_path):
    """A loop of known length: 1,000 times subtract, nop, branch, after one instruction that sets the counter."""
    (tmp_path / "model.h").write_text(
        "#include <stdint.h>\n#define MODEL_INPUTS 1\n#define MODEL_OUTPUTS 1\n"
        "typedef struct { float h[1]; } model_state;\n"
        "void model_reset(model_state *state);\nvoid model_step(model_state *state, const float input[1]);\n"
        "void model_read(const model_state *state, float output[1]);\n"
    )
    (tmp_path / "model.c").write_text(
        '#include "model.h"\nvoid model_reset(model_state *state)\n{\n    state->h[0] = 0.0f;\n}\n'
        "void model_step(model_state *state, const float input[1])\n{\n    (void)state, (void)input;\n"
        '    __asm__ volatile("mov r3, #1000\\n1: subs r3, #1\\n nop\\n bne 1b" : : : "r3", "cc");\n}\n'
        "void model_read(const model_state *state, float output[1])\n{\n    output[0] = state->h[0];\n}\n"
    )
    found = cortex.measure(tmp_path, [np.zeros((400, 1), np.float32)], 1)
    assert abs(found.instructions - 3001) < 0.3  # of 400 steps, to a tick or two of 40 instructions
