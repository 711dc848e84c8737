"""The kernels kept on disk: damage, other devices, processes at the same time, processes that are killed.

Needs no GPU: the compiler is replaced by one that counts its calls.
"""

import contextlib
import errno
import multiprocessing
import os
import random
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from cornn._atomic import TEMPORARY
from cornn.engine import _kernel_cache
from cornn.engine.backends.cuda import launch, nvrtc

pytest.importorskip("cuda.core", reason="cuda-core is not installed")
pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-core is not installed")

FILE = "block_forward.cu"
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither fork nor SIGKILL")


class Compiler:
    """Stands for `cuda.core.Program`; its cubin says for what it was compiled."""

    calls = 0

    def __init__(self, source, language, options):
        self.options = options

    def compile(self, kind):
        Compiler.calls += 1
        return SimpleNamespace(code=f"machine code for {self.options.arch}, {self.options.define_macro}".encode() * 50)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CORNN_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setattr("cuda.core.Program", Compiler)
    monkeypatch.setattr(Compiler, "calls", 0)
    return tmp_path / "kernels"


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-1] + b"?", lambda data: b""])
def test_a_damaged_file_is_compiled_again(cache, damage):
    first = nvrtc.compile_kernel(FILE, {}, "sm_90")
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert nvrtc.compile_kernel(FILE, {}, "sm_90") == first
    assert Compiler.calls == 2
    assert file.read_bytes() == whole


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has LOCALAPPDATA")
def test_an_empty_variable_names_no_folder(monkeypatch):
    monkeypatch.setenv("CORNN_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert _kernel_cache.folder() == Path.home() / ".cache" / "cornn" / "kernels"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    monkeypatch.delenv("HOME")
    assert _kernel_cache.folder() == Path("/elsewhere/cornn/kernels")


def test_options_and_architecture_make_other_files(cache):
    for arch, implicit in (("sm_80", 0), ("sm_80", 1), ("sm_90", 1)):
        nvrtc.compile_kernel(FILE, {"IMPLICIT": implicit}, arch)
    assert len(list(cache.iterdir())) == 3


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CORNN_CACHE", str(tmp_path / "file" / "kernels"))
    assert nvrtc.compile_kernel(FILE, {}, "sm_90")


def test_no_flipped_bit_is_believed(cache):
    first = nvrtc.compile_kernel(FILE, {"SIZE": 64}, "sm_90")
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    draw = random.Random(0)
    for number in range(200):
        damaged = bytearray(whole)
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        file.write_bytes(damaged)
        assert nvrtc.compile_kernel(FILE, {"SIZE": 64}, "sm_90") == first
        assert Compiler.calls == number + 2
        assert file.read_bytes() == whole


def test_the_file_of_another_device_is_not_believed(cache):
    """Two files change places: each is whole, and wrong."""
    wanted = {arch: nvrtc.compile_kernel(FILE, {"SIZE": 64}, arch) for arch in ("sm_80", "sm_90")}
    one, other = cache.iterdir()
    contents = one.read_bytes(), other.read_bytes()
    one.write_bytes(contents[1])
    other.write_bytes(contents[0])
    assert {arch: nvrtc.compile_kernel(FILE, {"SIZE": 64}, arch) for arch in wanted} == wanted
    assert Compiler.calls == 4


def test_another_compiler_version_compiles_again(cache, monkeypatch):
    nvrtc.compile_kernel(FILE, {}, "sm_90")
    monkeypatch.setattr("cuda.bindings.nvrtc.nvrtcVersion", lambda: (0, 99, 0))
    nvrtc.compile_kernel(FILE, {}, "sm_90")
    assert Compiler.calls == 2
    assert len(list(cache.iterdir())) == 2


def test_a_read_only_cache_is_no_error(cache, monkeypatch):
    cache.mkdir()

    def refuse(*_):
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(_kernel_cache, "write_atomically", refuse)
    assert nvrtc.compile_kernel(FILE, {}, "sm_90") == nvrtc.compile_kernel(FILE, {}, "sm_90")
    assert Compiler.calls == 2
    assert list(cache.iterdir()) == []


def test_a_full_disk_is_no_error_and_leaves_nothing(cache, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert nvrtc.compile_kernel(FILE, {}, "sm_90").startswith(b"machine code for sm_90")
    assert list(cache.iterdir()) == []


def test_a_cache_below_a_file_is_no_error(cache):
    cache.write_text("not a folder")
    assert nvrtc.compile_kernel(FILE, {}, "sm_90").startswith(b"machine code for sm_90")
    assert cache.read_text() == "not a folder"


class CudaCoreError(Exception):
    """As cuda-core's errors: of no other class that is public."""


def test_a_compilation_that_fails_is_one_sentence(cache, monkeypatch):
    def fail(self, kind):
        raise CudaCoreError("NVRTC_ERROR_COMPILATION: 3 errors\nblock_forward.cu(7): error: ...")

    monkeypatch.setattr(Compiler, "compile", fail)
    sentence = r"could not compile block_forward.cu for sm_90 \(NVRTC_ERROR_COMPILATION: 3 errors\): pip install"
    with pytest.raises(RuntimeError, match=sentence):
        nvrtc.compile_kernel(FILE, {}, "sm_90")
    assert not cache.exists()


def test_a_kernel_that_the_driver_refuses_is_one_sentence(cache, monkeypatch):
    """As if the driver were older than NVRTC."""

    def refuse(cubin):
        raise CudaCoreError("CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image\nis available")

    monkeypatch.setattr("cuda.core.ObjectCode", SimpleNamespace(from_cubin=refuse))
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(launch, "_bind", lambda device: None)
    sentence = (
        r"could not load block_forward.cu for sm_90 \(CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image\): update the"
    )
    with pytest.raises(RuntimeError, match=sentence):
        launch.prepare(FILE, "forward", {}, device=0, blocks=1, threads=32)


def test_leftovers_of_killed_processes_go(cache):
    cache.mkdir()
    old, new = cache / f"{TEMPORARY}old", cache / f"{TEMPORARY}new"
    for path in (old, new):
        path.write_bytes(b"half")
    then = time.time() - 2 * _kernel_cache.LEFTOVER_AGE
    os.utime(old, (then, then))
    nvrtc.compile_kernel(FILE, {}, "sm_90")
    assert not old.exists()
    assert new.exists()  # another process may be writing it


def _write_forever(path, cubin):
    while True:
        _kernel_cache.write_kernel(path, nvrtc._seal(path, cubin) + cubin)
        found = nvrtc._read(path)
        if found is None or len(found) != len(cubin) or len(set(found)) > 1:
            os._exit(3)


@POSIX
def test_processes_at_the_same_time_and_kills_leave_whole_files(cache):
    path = cache / "shared.cubin"
    # Bytes of one kind each: a mixture would be seen.
    processes = multiprocessing.get_context("fork")
    writers = [processes.Process(target=_write_forever, args=(path, kind * 500_000)) for kind in (b"0", b"1")]
    for writer in writers:
        writer.start()
    try:
        deadline = time.monotonic() + 60
        while not path.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for writer in writers:
            for _ in range(50):
                found = nvrtc._read(path)
                assert found is not None
                assert len(set(found)) == 1
            writer.kill()
            writer.join()
            assert writer.exitcode == -signal.SIGKILL
    finally:
        for writer in writers:
            writer.kill()
            writer.join()
    assert nvrtc._read(path) is not None


def _compile_here(folder):
    os.environ["CORNN_CACHE"] = folder
    return nvrtc.compile_kernel(FILE, {"SIZE": 64}, "sm_90")


@POSIX
def test_a_fresh_cache_and_many_processes_give_one_answer(cache):
    with multiprocessing.get_context("fork").Pool(4) as pool:
        found = pool.map(_compile_here, [str(cache)] * 16, chunksize=1)
    assert len(set(found)) == 1
    assert [path.suffix for path in cache.iterdir()] == [".cubin"]
