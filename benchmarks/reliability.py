"""Damage files, kill trainings and cut the power, and count what goes unnoticed.

    python benchmarks/reliability.py --minutes 10       # writes results/reliability.json

Every attack has a share of the time. A silent change is a command that ends with exit code 0 and another result than
without the attack. A traceback is an error that is not one sentence. Both must be 0; the program exits with 1 if not.
Commands run in forked processes of one that has imported everything, so it needs Linux or macOS.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import contextlib
import importlib
import json
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from damage import FILES, change_value, damage, flip_bit, use, use_or_sentence, write_folders

from cornn import __main__ as program
from cornn._checksums import UncheckedFileWarning
from cornn._machine import machine
from cornn._source import source
from cornn.cli import COMMANDS
from cornn.lab.config import as_dictionary
from cornn.lab.recipes import resolve
from cornn.lab.runs import open_run

TRAIN = [
    "adding",
    "--length",
    "12",
    "--hidden-size",
    "6",
    "--steps",
    "60",
    "--device",
    "cpu",
    "--ema",
    "0.9",
    "--quiet",
]
AT_EVERY_STEP = ["--evaluate-every", "5", "--checkpoint-every", "0"]
NOW_AND_THEN = ["--evaluate-every", "1", "--checkpoint-every", "0.1"]  # most rows of the curve are not synced yet
LIMIT = 60  # seconds of one command; a longer one hangs
PRELOADED = (
    "lightning_fabric",
    "filelock",
    "safetensors.numpy",
    "sklearn.linear_model",
    "cornn.fitting",
    "cornn.export",
)
FIXTURES = ROOT / "tests" / "fixtures" / "0.1.0"


class End(NamedTuple):
    """How a command ended."""

    code: int | None  # None: killed
    out: str
    err: str
    seconds: float

    @property
    def wrong(self) -> str | None:
        """What is wrong with the way it ended, if anything."""
        if "Traceback (most recent call last)" in self.err:
            return "traceback"
        if self.code is None:
            return "hang"
        return "crash" if self.code not in (0, 2) else None


def start(arguments: list, folder: Path, synced: Path | None = None) -> int:
    """Start a command in a forked process; `synced` is where it writes which bytes are on the disk."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.chdir(folder)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
        if synced is not None:
            _record_syncs(synced)
        sys.argv = ["cornn", *map(str, arguments)]
        program.main()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def wait(process: int, folder: Path, limit: float = LIMIT) -> End:
    """Wait for a process, kill it after the limit, and return how it ended."""
    begin, code = time.monotonic(), None
    while True:
        finished, status = os.waitpid(process, os.WNOHANG)
        if finished:
            code = os.waitstatus_to_exitcode(status)
            break
        if time.monotonic() - begin > limit:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            break
        time.sleep(0.002)
    texts = [(folder / name).read_text(errors="replace") if (folder / name).exists() else "" for name in ("out", "err")]
    return End(code, *texts, time.monotonic() - begin)


def run(arguments: list, folder: Path) -> End:
    return wait(start(arguments, folder), folder)


def _record_syncs(log: Path) -> None:
    """Write the identity and the size of every file that is synced to `log`, in this process."""
    record, real = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), os.fsync

    def fsync(file: int) -> None:
        real(file)
        about = os.fstat(file)
        os.write(record, f"{about.st_ino} {about.st_size}\n".encode())

    os.fsync = fsync


def cut_power(folder: Path, log: Path, draw: random.Random) -> int:
    """Lose the bytes that were not synced: truncate files, or fill with NULs. Return how many lost some."""
    lines = log.read_text().splitlines() if log.exists() else []
    synced = {int(inode): int(size) for inode, size in (line.split() for line in lines)}
    lost = 0
    for path in sorted(folder.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        safe = min(synced.get(path.stat().st_ino, 0), len(content))
        if safe < len(content):
            position = draw.randint(safe, len(content) - 1)
            path.write_bytes(content[:position] + bytes(len(content) - position) * draw.randrange(2))
            lost += 1
    return lost


def end_of(folder: Path) -> str:
    """Return the results of a finished run: its weights, its curve and its metric, to the last bit."""
    finished = open_run(folder)
    weights = {name: value.numpy().tobytes().hex() for name, value in sorted(finished.weights().items())}
    rows = [{name: row.get(name) for name in ("step", "metric", "loss")} for row in finished.metrics()]
    result = finished.result or {}
    return repr((weights, rows, result.get("test"), result.get("best_step")))


class Attack:
    """The count of one attack."""

    def __init__(self, work: Path, seconds: float, seed: int) -> None:
        self.work, self.draw = work, random.Random(seed)
        self.begin = time.monotonic()
        self.until = self.begin + seconds
        self.counts: Counter[str] = Counter(tries=0, silent=0, tracebacks=0, noticed=0)
        self.examples: list[str] = []

    def going(self) -> bool:
        return time.monotonic() < self.until or not self.counts["tries"]

    def found(self, kind: str, example: str) -> None:
        self.counts[kind] += 1
        self.examples.append(f"{kind}: {example}")
        print(f"  {self.examples[-1]}", flush=True)

    def judge(self, end: End, what: str) -> bool:
        """Count a command that ended wrongly; return whether it was right."""
        if end.wrong:
            last = (end.err.strip().splitlines() or [""])[-1]
            self.found("tracebacks", f"{what}: {end.wrong}, exit code {end.code}: {last}")
        return not end.wrong


def train_whole(work: Path, often: list[str]) -> tuple[str, float]:
    """Train without interruption, and return its end and its seconds."""
    end = run(["train", *TRAIN, *often, "--out", work / "whole"], work)
    if end.code != 0:
        sys.exit(f"the training without interruption failed: {end.err}")
    return end_of(work / "whole"), end.seconds


def attack_kill(attack: Attack, power: bool = False) -> None:
    """Kill with -9 at random moments, resume, and compare with the uninterrupted training; a chain has several."""
    often = NOW_AND_THEN if power else AT_EVERY_STEP
    expected, seconds = train_whole(attack.work, often)
    folder, log = attack.work / "killed", attack.work / "synced"
    while attack.going():
        shutil.rmtree(folder, ignore_errors=True)
        log.unlink(missing_ok=True)
        chain, code = attack.draw.randint(1, 4), None
        while code is None:
            is_started = (folder / "config.json").exists()
            if not is_started:  # killed before there was a run: the command is run again
                shutil.rmtree(folder, ignore_errors=True)
            elif open_run(folder).complete:  # killed after it had finished
                code = 0
                break
            arguments = ["resume", folder, "--quiet"] if is_started else ["train", *TRAIN, *often, "--out", folder]
            process = start(arguments, attack.work, log)
            limit = attack.draw.uniform(0, seconds) if chain else LIMIT
            end = wait(process, attack.work, limit)
            code = end.code
            if code is None and chain:
                chain -= 1
                attack.counts["tries"] += 1
                if power and folder.exists():
                    attack.counts["noticed"] += cut_power(folder, log, attack.draw) > 0
            elif not attack.judge(end, " ".join(map(str, arguments))):
                break
            elif code and power:  # an error in one sentence is allowed
                attack.counts["refused"] += 1
                print(f"  refused: {end.err.strip()}", flush=True)
            elif code:
                attack.found("tracebacks", f"not resumed: {end.err.strip()}")
        if code == 0:
            attack.counts["resumed"] += 1
            if end_of(folder) != expected:
                attack.found("silent", "another end after it was resumed")


def attack_power(attack: Attack) -> None:
    """Do the same with a power cut: bytes that were not synced are lost."""
    attack_kill(attack, power=True)


def attack_bits(attack: Attack) -> None:
    """Flip one bit in one file of a finished run, an interrupted run or an estimator."""
    warnings.simplefilter("error", UncheckedFileWarning)  # a checksum that is missing counts as noticed
    write_folders(attack.work)
    expected = {name: use(attack.work / name) for name in FILES}
    cases = [(name, file) for name, files in FILES.items() for file in files]
    while attack.going():
        name, file = cases[attack.counts["tries"] % len(cases)]
        path = attack.work / name / file
        content = path.read_bytes()
        path.write_bytes(flip_bit(content, attack.draw))
        attack.counts["tries"] += 1
        try:
            value, sentence = use_or_sentence(attack.work / name)
            if sentence is not None:
                attack.counts["noticed"] += 1
            elif value != expected[name]:
                attack.found("silent", f"{name}/{file}")
        except Exception as error:
            attack.found("tracebacks", f"{name}/{file}: {error!r}")
        path.write_bytes(content)


def attack_commands(attack: Attack) -> None:
    """Read files that are damaged in many ways with the commands. Without checksums only tracebacks count."""
    work, saved = attack.work, attack.work / "saved"
    saved.mkdir()
    _, seconds = train_whole(work, AT_EVERY_STEP)
    shutil.move(work / "whole", saved / "finished")
    while not (saved / "interrupted" / "checkpoint-before.pt").exists() or (saved / "interrupted/result.json").exists():
        shutil.rmtree(saved / "interrupted", ignore_errors=True)
        process = start(["train", *TRAIN, *AT_EVERY_STEP, "--out", saved / "interrupted"], work)
        wait(process, work, attack.draw.uniform(0.3, 0.9) * seconds)
    write = work / "small"
    write.mkdir()
    write_folders(write)
    shutil.move(write / "estimator", saved / "estimator")
    shutil.move(write / "data.csv", work / "data.csv")
    for kind, old in (("finished", "run-finished"), ("interrupted", "run-interrupted"), ("estimator", "fit")):
        shutil.copytree(FIXTURES / old, saved / f"{kind}-0.1.0")
    shutil.copy(FIXTURES / "waves.csv", work / "waves.csv")
    cases: list[tuple[str, Callable[[Path], list]]] = [
        ("finished", lambda folder: ["evaluate", folder]),
        ("finished", lambda folder: ["check", folder]),
        ("finished", lambda folder: ["export", folder, "--to", "c", "--out", work / "code"]),
        ("interrupted", lambda folder: ["resume", folder, "--quiet"]),
        ("estimator", lambda folder: ["predict", folder, work / "data.csv", "--out", work / "answer.csv"]),
        ("finished-0.1.0", lambda folder: ["evaluate", folder]),
        ("interrupted-0.1.0", lambda folder: ["resume", folder, "--quiet"]),
        ("estimator-0.1.0", lambda folder: ["predict", folder, work / "waves.csv", "--out", work / "answer.csv"]),
    ]

    def outcome(name: str, command: Callable[[Path], list], change: str | None) -> tuple[End, str]:
        folder = work / "damaged"
        for old in (folder, work / "code"):
            shutil.rmtree(old, ignore_errors=True)
        (work / "answer.csv").unlink(missing_ok=True)
        shutil.copytree(saved / name, folder)
        if change is not None:
            (folder / change).write_bytes(damage((folder / change).read_bytes(), attack.draw))
        end = run(command(folder), work)
        text = end.out
        if end.code == 0 and name == "interrupted":
            text = end_of(folder)
        for path in (work / "answer.csv", *sorted((work / "code").rglob("*.[ch]"))):
            text += path.read_text() if path.exists() else ""
        return end, text

    expected = {}
    for number, (name, command) in enumerate(cases):
        end, expected[number] = outcome(name, command, None)
        if end.code != 0:
            sys.exit(f"{' '.join(map(str, command(saved / name)))} failed without damage: {end.err}")
    while attack.going():
        number = attack.counts["tries"] % len(cases)
        name, command = cases[number]
        known = {"artifact.json", "config.json", "model.safetensors", "result.json", "metrics.jsonl", "checkpoint.pt"}
        file = attack.draw.choice(sorted(path.name for path in (saved / name).iterdir() if path.name in known))
        end, text = outcome(name, command, file)
        attack.counts["tries"] += 1
        what = f"{command(Path('RUN'))[0]} {name}, {file}"
        if not attack.judge(end, what):
            continue
        attack.counts["noticed"] += end.code != 0
        if end.code == 0 and "0.1.0" not in name and "no checksum" not in end.err and text != expected[number]:
            attack.found("silent", what)


def attack_settings(attack: Attack) -> None:
    """Remove settings of a --config file, or change their type or size."""
    content = json.loads(json.dumps(as_dictionary(resolve("adding", length=12))))
    path = attack.work / "settings.json"
    while attack.going():
        path.write_text(json.dumps(change_value(content, attack.draw)))
        end = run(["train", "adding", "--config", path, "--dry-run"], attack.work)
        attack.counts["tries"] += 1
        if attack.judge(end, path.read_text()):
            attack.counts["noticed"] += end.code != 0


ATTACKS: dict[str, tuple[float, Callable[[Attack], None]]] = {
    "kill": (0.3, attack_kill),
    "power": (0.2, attack_power),
    "commands": (0.25, attack_commands),
    "settings": (0.1, attack_settings),
    "bits": (0.15, attack_bits),  # the last, as it computes in this process, which must not be forked afterwards
}
"""Name -> its share of the time, and the attack."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=ATTACKS)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "reliability.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in (*(f"cornn.cli.{entry.module}" for entry in COMMANDS.values()), *PRELOADED):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    ran = source()  # the code that is loaded now, whatever is committed in the meantime
    begin, rows = time.monotonic(), []
    for name, (share, attack) in ATTACKS.items():
        if options.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as work:
            attempt = Attack(Path(work), 60 * options.minutes * (1 if options.only else share), options.seed)
            attack(attempt)
        seconds = round(time.monotonic() - attempt.begin, 1)
        rows.append({"attack": name, **attempt.counts, "seconds": seconds, "examples": attempt.examples[:20]})
        print(f"{name}: {json.dumps({key: value for key, value in rows[-1].items() if key != 'examples'})}", flush=True)
    content = {
        "measured": "silent changes and tracebacks under attack",
        "minutes": options.minutes,
        "seed": options.seed,
        "seconds": round(time.monotonic() - begin, 1),
        "machine": machine(),
        **ran,
        "rows": rows,
    }
    options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")
    print(options.out)
    if any(row["silent"] or row["tracebacks"] for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
