"""Run several cornn commands side by side on one machine, and pack their records to take them to another.

    python tools/side_by_side.py start results/missing-runs.txt FOLDER   # returns at once; the commands run on
    python tools/side_by_side.py wait FOLDER --seconds 500               # until all have ended, or for 500 seconds
    python tools/side_by_side.py pack FOLDER records.tgz [--unfinished unfinished.tgz]
    python tools/side_by_side.py unpack records.tgz                      # where the records belong: into results/

Each line of the file is `QUEUE: COMMAND`, where the command is that of `cornn train` or `cornn compare` without its
folders; `#` starts a comment. Queues run at the same time, the commands of a queue one after another. A queue whose
name ends in "-" yields to the others on a GPU. Where NVIDIA's MPS is installed, the processes share the GPU through it.

`pack` takes what `tools/import_records.py` needs and leaves out checkpoints and databases; `--unfinished` has the run
folders that `cornn resume` continues.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from import_records import import_record

from cornn.artifacts import BEFORE, CHECKPOINT
from cornn.lab.records import TRUSTED

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = (CHECKPOINT, BEFORE, ".lock")


def read_queues(file: Path) -> dict[str, list[list[str]]]:
    """Return the commands of each queue."""
    queues: dict[str, list[list[str]]] = {}
    for number, line in enumerate(file.read_text(encoding="utf8").splitlines(), 1):
        words = shlex.split(line, comments=True)
        if not words:
            continue
        queue, command = words[0], words[1:]
        if not queue.endswith(":") or command[:1] not in (["train"], ["compare"]):
            raise SystemExit(
                f"{file}, line {number}: expected 'QUEUE: train ...' or 'QUEUE: compare ...', got {line!r}"
            )
        queues.setdefault(queue[:-1], []).append(command)
    return queues


def start(file: Path, folder: Path) -> None:
    """Start a process per queue, which outlives this one."""
    queues = read_queues(file)
    folder.mkdir(parents=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    if shutil.which("nvidia-cuda-mps-control"):
        for name in ("PIPE", "LOG"):
            environment[f"CUDA_MPS_{name}_DIRECTORY"] = str(folder / f"mps-{name.lower()}")
            (folder / f"mps-{name.lower()}").mkdir()
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=environment, check=True)
    for queue, commands in queues.items():
        lines = []
        for number, command in enumerate(commands):
            job = f"{queue}-{number}"
            train, compare = ["--out", f"runs/{job}"], ["--results", f"results/{job}", "--folder", f"work/{job}"]
            folders = train if command[0] == "train" else compare
            lines.append(shlex.join([sys.executable, "-m", "cornn", *command, *folders, "--quiet"]))
        with open(folder / f"{queue}.log", "w") as log:
            subprocess.Popen(
                ["bash", "-c", "\n".join([*lines, f"touch {shlex.quote(queue)}.ended"])],
                cwd=folder,
                env=environment | ({"CUDA_MPS_CLIENT_PRIORITY": "1"} if queue.endswith("-") else {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    (folder / "queues.json").write_text(json.dumps(queues), encoding="utf8")


def wait(folder: Path, seconds: float) -> None:
    """Wait until all queues have ended, or for a time, and print how far they are."""
    queues = json.loads((folder / "queues.json").read_text(encoding="utf8"))
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and not all((folder / f"{queue}.ended").exists() for queue in queues):
        time.sleep(1)
    for queue in queues:
        lines = (folder / f"{queue}.log").read_text(errors="replace").splitlines()
        state = "ended" if (folder / f"{queue}.ended").exists() else "running"
        print(f"{queue}: {state}; {lines[-1] if lines else 'no output yet'}")


def pack(folder: Path, archive: Path, unfinished: Path | None) -> None:
    """Write the records of all finished runs and comparisons into an archive."""
    runs = sorted(path for path in folder.glob("runs/*") if path.is_dir())
    finished = [run for run in runs if (run / "result.json").exists()]
    with tarfile.open(archive, "w:gz") as packed:
        files = [file for run in finished for file in sorted(run.iterdir()) if file.name not in LEFT_OUT]
        for file in [*files, *sorted(folder.glob("results/**/*.json")), *sorted(folder.glob("*.log"))]:
            packed.add(file, arcname=str(file.relative_to(folder)))
    if unfinished is not None:
        with tarfile.open(unfinished, "w:gz") as packed:
            for run in (run for run in runs if run not in finished):
                packed.add(run, arcname=str(run.relative_to(folder)))
    print(f"{archive}: {len(finished)} of {len(runs)} runs, {archive.stat().st_size / 1e6:.1f} MB")


def unpack(archive: Path, results: Path) -> int:
    """Import the records of an archive into `results` and return the exit code: 1 if the source of one is in doubt."""
    in_doubt = 0
    with tempfile.TemporaryDirectory() as place, tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
        runs = (path for path in Path(place).glob("runs/*") if path.is_dir())
        for file in sorted([*runs, *Path(place).glob("results/**/*.json")]):
            path, source = import_record(file, results)
            print(f"{path.relative_to(results)}: {source}")
            in_doubt += source not in TRUSTED
    return int(in_doubt > 0)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("start", "wait", "pack", "unpack"):
        command = commands.add_parser(name)
        if name == "start":
            command.add_argument("file", type=Path)
        if name != "unpack":
            command.add_argument("folder", type=Path)
        if name in ("pack", "unpack"):
            command.add_argument("archive", type=Path)
        if name == "wait":
            command.add_argument("--seconds", type=float, default=float("inf"))
        if name == "pack":
            command.add_argument("--unfinished", type=Path)
    options = parser.parse_args(arguments)
    match options.command:
        case "start":
            start(options.file, options.folder)
        case "wait":
            wait(options.folder, options.seconds)
        case "pack":
            pack(options.folder, options.archive, options.unfinished)
        case _:
            return unpack(options.archive, ROOT / "results")
    return 0


if __name__ == "__main__":
    sys.exit(main())
