"""A model for the Hugging Face hub, written to a folder and read back; no network is used."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

pytest.importorskip("huggingface_hub")

from cornn import CoRNN
from cornn._random import generator
from cornn.export.hub import HubModel, save_estimator
from cornn.models import SequenceModel


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def model_of(**options) -> SequenceModel:
    layer = CoRNN(3, 5, 2, bidirectional=True, trainable=("dt", "epsilon"), per_neuron=True, damping="implicit")
    model = SequenceModel(layer, 2, **options)
    model.reset_parameters(generator(0, "model"))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 0.1  # the layers' constants are no longer the same
    return model


@pytest.mark.parametrize("options", [{}, {"read": "every", "encoder": nn.Embedding(7, 3)}], ids=["values", "words"])
def test_a_model_comes_back_as_it_was(tmp_path, options):
    model = model_of(**options)
    HubModel.from_model(model).save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"README.md", "config.json", "model.safetensors"}
    again = HubModel.from_pretrained(tmp_path, strict=True)
    for name, value in model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], value), name
    random = generator(0, "input")
    words = "encoder" in options
    input = torch.randint(0, 7, (6, 4), generator=random) if words else torch.randn(6, 4, 3, generator=random)
    assert torch.equal(again(input), model(input))
    settings = json.loads((tmp_path / "config.json").read_text(encoding="utf8"))
    assert settings["hidden_size"] == 5
    assert settings["damping"] == "implicit"
    assert settings["words"] == (7 if words else None)


def test_a_copy_is_published(tmp_path):
    model = model_of()
    published = HubModel.from_model(model)
    with torch.no_grad():
        model.head.weight.zero_()
    assert published.model.head.weight.abs().min() > 0


@pytest.mark.filterwarnings("ignore:.*has no checksum")
def test_a_weight_that_is_missing_is_noticed(tmp_path):
    HubModel.from_model(model_of()).save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.head.bias"]
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"is damaged: .*model\.head\.bias"):
        HubModel.from_pretrained(tmp_path, strict=True)


class Doubled(nn.Embedding):
    """An encoder of the user, which computes something else."""

    def forward(self, input):
        return 2 * super().forward(input)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (lambda: SequenceModel(nn.GRU(3, 5), 2), "need a CoRNN layer, this one has GRU"),
        (lambda: model_of(encoder=nn.Linear(2, 3)), "or no encoder; this one has Linear"),
        (lambda: model_of(encoder=nn.Embedding(7, 3, max_norm=1.0)), "without max_norm, .* this one has Embedding"),
        (lambda: model_of(encoder=Doubled(7, 3)), "or no encoder; this one has Doubled"),
        (lambda: model_of().double(), "are float32, this one is torch.float64"),
    ],
    ids=["layer", "encoder", "max-norm", "subclass", "double"],
)
def test_what_the_hub_has_no_place_for(model, says):
    with pytest.raises(ValueError, match=says):
        HubModel.from_model(model())


def test_damage_is_noticed(tmp_path):
    HubModel.from_model(model_of()).save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    text = config.read_text(encoding="utf8")
    config.write_text(text.replace("implicit", "explicit"), encoding="utf8")
    with pytest.raises(ValueError, match=r"config\.json does not describe the model in model\.safetensors"):
        HubModel.from_pretrained(tmp_path, strict=True)
    config.write_text(text, encoding="utf8")
    weights = tmp_path / "model.safetensors"
    damaged = bytearray(weights.read_bytes())
    damaged[-3] ^= 1
    weights.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged: .* checksum: download or export it again"):
        HubModel.from_pretrained(tmp_path, strict=True)


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    from cornn.estimators import CoRNNClassifier

    (tmp_path / "file").write_text("")
    draw = torch.Generator().manual_seed(0)
    fitted = CoRNNClassifier(random_state=0).fit(torch.randn(12, 20, generator=draw).numpy(), [0, 1] * 6)
    with pytest.raises(OSError, match=r"^cannot write .*here \(Not a directory\): choose another path"):
        save_estimator(fitted, tmp_path / "file" / "here")


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    from cornn.estimators import CoRNNClassifier

    def full(file):
        raise OSError(28, "No space left on device")

    draw = torch.Generator().manual_seed(0)
    fitted = CoRNNClassifier(random_state=0).fit(torch.randn(12, 20, generator=draw).numpy(), [0, 1] * 6)
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"^cannot write \S*safetensors \(No space left on device\): choose another"):
        save_estimator(fitted, tmp_path)


def test_an_edited_model_card_is_kept(tmp_path):
    from cornn.estimators import CoRNNClassifier

    draw = torch.Generator().manual_seed(0)
    fitted = CoRNNClassifier(random_state=0).fit(torch.randn(12, 20, generator=draw).numpy(), [0, 1] * 6)
    card = tmp_path / "README.md"
    save_estimator(fitted, tmp_path)
    assert "library_name: cornn" in card.read_text(encoding="utf8")
    card.write_text("# My own card", encoding="utf8")
    save_estimator(fitted, tmp_path)
    assert card.read_text(encoding="utf8") == "# My own card"
