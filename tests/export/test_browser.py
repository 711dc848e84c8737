"""The same answer in a browser: onnxruntime-web in a headless Chromium, from a server of this process."""

import http.server
import json
import queue
import shutil
import subprocess
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("onnx")

from cornn import CoRNN
from cornn._random import generator
from cornn.export.check import TOLERANCE
from cornn.export.onnx import OnnxOptions, to_onnx
from cornn.models import SequenceModel

PACKAGE = Path(__file__).parents[2] / "build" / "onnxruntime-web"
FILES = ("ort.wasm.min.js", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
SECONDS = 60


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and keeps what the page sends back."""

    extensions_map = {".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript"} | {
        ".wasm": "application/wasm",
        "": "application/octet-stream",
    }

    def __init__(self, *arguments, answers: queue.Queue, **options) -> None:
        self.answers = answers
        super().__init__(*arguments, **options)

    def do_POST(self) -> None:
        self.answers.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format, *arguments) -> None:
        pass


def answer_of(folder: Path) -> dict:
    """What page.html, opened from `folder`, sends back."""
    answers = queue.Queue()
    handler = partial(Handler, directory=str(folder), answers=answers)
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"]
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", *quiet]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/page.html"
        browser = subprocess.Popen(
            [*command, f"--user-data-dir={folder / 'profile'}", "--remote-debugging-port=0", address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            return answers.get(timeout=SECONDS)
        finally:
            browser.terminate()
            browser.wait(timeout=SECONDS)
            server.shutdown()


def plain(array: np.ndarray) -> dict:
    return {"type": str(array.dtype), "dims": array.shape, "data": array.ravel().tolist()}


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
@pytest.mark.skipif(not PACKAGE.is_dir(), reason="needs onnxruntime-web in build/onnxruntime-web: .ci/run fetches it")
def test_the_browser_gives_the_same_answer(tmp_path):
    layer = CoRNN(6, 16, 2, damping="implicit", gamma=torch.linspace(0.1, 2, 16))
    model = SequenceModel(layer, 3, encoder=nn.Embedding(10, 6)).eval()
    to_onnx(model, tmp_path / "model.onnx", OnnxOptions(state=True))
    words = torch.randint(0, 10, (2, 12), generator=generator(0, "words"))
    zeros = np.zeros((2, 2, 16), np.float32)
    feeds = {"whole": plain(words.numpy()), "state": {"y": plain(zeros), "z": plain(zeros)}}
    feeds["samples"] = [plain(sample.numpy()) for sample in words.split(1, 1)]
    (tmp_path / "feeds.json").write_text(json.dumps(feeds), encoding="utf8")
    shutil.copy(Path(__file__).with_name("page.html"), tmp_path)
    for name in FILES:
        shutil.copy(PACKAGE / name, tmp_path)
    answer = answer_of(tmp_path)
    assert "error" not in answer, answer
    want = model(words.T).detach().numpy()
    for way in ("whole", "streamed"):
        found = np.array(answer[way]).reshape(want.shape)
        assert np.abs(found - want).max() <= TOLERANCE * np.abs(want).max(), way
