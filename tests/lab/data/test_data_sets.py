"""Every reader on a set of its publisher's layout, whole, damaged and missing."""

import pickle
import zipfile

import numpy as np
import pytest
import tiny

from cornn.lab.data import cifar10, find_folder, glove, har, imdb, mnist


def test_the_data_folder_is_the_given_one_else_the_variable_else_data(monkeypatch, tmp_path):
    monkeypatch.setenv("CORNN_DATA", str(tmp_path))
    assert find_folder(tmp_path / "x") == tmp_path / "x"
    assert find_folder() == tmp_path
    monkeypatch.delenv("CORNN_DATA")
    assert str(find_folder()) == "data"


@pytest.mark.parametrize(
    ("reader", "title", "name"),
    [
        (mnist, "MNIST", "mnist"),
        (cifar10, "CIFAR-10", "cifar10"),
        (har, "UCI HAR", "har"),
        (imdb, "IMDB", "imdb"),
        (glove, "GloVe", "glove"),
    ],
)
def test_what_is_missing_is_said_with_the_remedy(reader, title, name, tmp_path, monkeypatch):
    monkeypatch.delenv("CORNN_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as raised:
        reader.find(find_folder())
    assert str(raised.value) == f'no {title} in data/: run "cornn data get {name}", or set CORNN_DATA'


@pytest.mark.parametrize("packed", [True, False])
def test_mnist(tmp_path, monkeypatch, packed):
    written = tiny.write_mnist(tmp_path, monkeypatch, packed=packed)
    for split in ("train", "test"):
        images, labels = mnist.read(tmp_path, split)
        assert np.array_equal(images, written[split][0].reshape(-1, 784))
        assert np.array_equal(labels, written[split][1])


def test_mnist_in_another_place(tmp_path, monkeypatch):
    tiny.write_mnist(tmp_path, monkeypatch)
    (tmp_path / "MNIST" / "raw").rename(tmp_path / "mnist")
    assert len(mnist.read(tmp_path, "test")[1]) == 10


@pytest.mark.parametrize("packed", [True, False])
def test_damaged_mnist(tmp_path, monkeypatch, packed):
    tiny.write_mnist(tmp_path, monkeypatch, packed=packed)
    path = mnist.find(tmp_path)["train"][0]
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match=r'is damaged.*: remove it and run "cornn data get mnist"'):
        mnist.read(tmp_path, "train")


@pytest.mark.parametrize("kind", cifar10.PLACES)
def test_cifar10_row_by_row(tmp_path, monkeypatch, kind):
    written = tiny.write_cifar10(tmp_path, monkeypatch, kind)
    images, labels = cifar10.read(tmp_path, "train")
    assert images.shape == (40, 32, 96)
    whole = np.concatenate([written[f"data_batch_{number}"][0] for number in range(1, 6)])
    for colour in range(3):
        assert np.array_equal(images[:, 5, 32 * colour : 32 * (colour + 1)], whole[:, colour, 5])
    assert np.array_equal(labels, np.tile(np.arange(8), 5))
    assert np.array_equal(cifar10.read(tmp_path, "test")[1], written["test_batch"][1])


def test_damaged_cifar10(tmp_path, monkeypatch):
    tiny.write_cifar10(tmp_path, monkeypatch)
    path = tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin"
    path.write_bytes(b"x" + path.read_bytes()[1:])
    with pytest.raises(ValueError, match=r"is damaged \(the md5 sum of data_batch_3.bin is \w+, its publisher's is"):
        cifar10.read(tmp_path, "train")


@pytest.mark.parametrize("kind", ["cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"])
def test_truncated_cifar10_archive(tmp_path, monkeypatch, kind):
    tiny.write_cifar10(tmp_path, monkeypatch, kind)
    path = tmp_path / kind
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ValueError, match="is damaged"):
        cifar10.read(tmp_path, "train")


def test_a_batch_of_cifar10_that_would_run_a_program_is_refused(tmp_path, monkeypatch):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "made"), "w"))

    tiny.write_cifar10(tmp_path, monkeypatch, "cifar-10-batches-py")
    content = pickle.dumps({b"data": Evil(), b"labels": []}, protocol=2)
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(content)
    monkeypatch.setitem(cifar10.SUMS, "data_batch_1", tiny.md5(content))
    with pytest.raises(ValueError, match="which is not allowed"):
        cifar10.read(tmp_path, "train")
    assert not (tmp_path / "made").exists()


def test_har(tmp_path):
    written = tiny.write_har(tmp_path)
    for split in ("train", "test"):
        signals, activities, subjects = har.read(tmp_path, split)
        assert signals.dtype == np.float32
        np.testing.assert_allclose(signals, written[split][0], rtol=1e-6)  # seven digits are written
        assert np.array_equal(activities, written[split][1])
        assert np.array_equal(subjects, written[split][2])


@pytest.mark.parametrize(
    ("file", "change", "why"),
    [
        ("y_train.txt", lambda text: text + "1\n", "rows"),
        ("y_train.txt", lambda text: "7" + text[1:], "an activity is not between 1 and 6"),
        ("Inertial Signals/body_acc_x_train.txt", lambda text: text[: len(text) // 2], "rows"),
        ("Inertial Signals/body_acc_x_train.txt", lambda text: text.replace("e", "x", 1), "could not convert"),
        ("Inertial Signals/total_acc_z_train.txt", lambda text: "", "are not rows of 128"),
    ],
)
def test_damaged_har(tmp_path, file, change, why):
    tiny.write_har(tmp_path)
    path = tmp_path / har.FOLDER / "train" / file
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=f"is damaged.*{why}"):
        har.read(tmp_path, "train")


def test_incomplete_har(tmp_path):
    tiny.write_har(tmp_path)
    (tmp_path / har.FOLDER / "test" / "y_test.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"no complete UCI HAR .*y_test.txt is missing.*cornn data get har"):
        har.read(tmp_path, "train")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I don't like it.", ["I", "do", "n't", "like", "it", "."]),
        ("The film's 1,000.5 well-made...", ["The", "film", "'s", "1,000.5", "well", "-", "made", "..."]),
        ("He\u2019ll say: 'No!'<br /><br />CAN'T", ["He", "'ll", "say", ":", "'", "No", "!", "'", "CA", "N'T"]),
        ("", []),
        ("  \n ", []),
    ],
)
def test_tokens(text, words):
    assert imdb.tokens(text) == words


def test_imdb_in_the_order_of_its_numbers(tmp_path):
    tiny.write_imdb(tmp_path, each=12)
    reviews = imdb.read(tmp_path, "train")
    assert reviews.positive.tolist() == [0] * 12 + [1] * 12
    assert reviews.lengths.tolist() == list(range(15, 27)) * 2  # each has one "very" more than the one before
    first = " ".join(reviews.lexicon[number] for number in reviews.words[:15])
    assert first == "The film 's bad . I do n't see the plot , the end ..."
    assert "zebra" not in reviews.lexicon


def test_incomplete_imdb(tmp_path):
    tiny.write_imdb(tmp_path)
    for path in (tmp_path / "aclImdb" / "test" / "pos").iterdir():
        path.unlink()
    with pytest.raises(FileNotFoundError, match="aclImdb/test/pos holds no reviews"):
        imdb.find(tmp_path)


@pytest.mark.parametrize("packed", [False, True])
def test_glove(tmp_path, packed):
    vectors = tiny.write_glove(tmp_path)
    if packed:
        with zipfile.ZipFile(tmp_path / glove.ARCHIVE, "w") as archive:
            archive.write(tmp_path / glove.FILE, glove.FILE)
        (tmp_path / glove.FILE).unlink()
    words, read = glove.read(tmp_path)
    assert words == tiny.WORDS
    np.testing.assert_allclose(read, vectors, atol=6e-6)  # five digits are written


def test_words_of_glove_may_hold_rare_white_space(tmp_path):
    (tmp_path / glove.FILE).write_text(f"a\u00a0b{' 1' * 100}\nc\u0085{' 2' * 100}\n", encoding="utf8")
    assert glove.read(tmp_path)[0] == ["a\u00a0b", "c\u0085"]


@pytest.mark.parametrize(
    "text", ["a 1 2 3\n", f"a{' 1' * 100}\nb{' x' * 100}\n", "\n", f"a{' 1' * 99}\nb{' 1' * 101}\n"]
)
def test_damaged_glove(tmp_path, text):
    (tmp_path / glove.FILE).write_text(text)
    with pytest.raises(ValueError, match=r'is damaged .*: remove it and run "cornn data get glove"'):
        glove.read(tmp_path)
