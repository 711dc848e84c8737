import numpy as np
import pytest
import tiny
import torch

from cornn._random import generator
from cornn.lab.data import imdb
from cornn.lab.tasks import IMDB
from cornn.lab.tasks.imdb import FIRST, PADDING, UNKNOWN
from cornn.lab.tasks.task import hold_out


@pytest.fixture
def data(tmp_path):
    tiny.write_imdb(tmp_path)
    tiny.write_glove(tmp_path)
    return tmp_path


def whole(split):
    return split.batch(torch.arange(split.size), generator(0, "x"))


def vocabulary_of(options, data):
    """The words of a task that is loaded with seed 0, by their numbers."""
    reviews = imdb.read(data, "train")
    training, _ = hold_out(20, options.validation, generator(0, "imdb", "validation"))
    return ["<unknown>", "<padding>", *options._vocabulary(reviews, training.numpy())[0]]


def test_reviews_as_the_numbers_of_their_words(data):
    options = IMDB(validation=4)
    task = options.load(0, data)
    words = vocabulary_of(options, data)
    assert words[FIRST : FIRST + 2] in (["very", "the"], ["the", "very"])  # the most frequent ones
    assert (task.training.size, task.validation.size, task.test().size) == (16, 4, 20)
    batch = whole(task.test())
    assert batch.input.shape == (25, 20)  # the longest has fifteen words, "zebra", and "very" nine times
    first = " ".join(words[number] for number in batch.input[:, 0])
    assert first == "The film 's bad . I do n't see the plot , <unknown> the end ..." + " <padding>" * 9
    assert batch.target.tolist() == [0.0] * 10 + [1.0] * 10
    assert batch.lengths is None


def test_a_batch_is_as_long_as_its_longest_review(data):
    split = IMDB(validation=4).load(0, data).test()
    batch = split.batch(torch.tensor([0, 2]), generator(0, "x"))
    assert batch.input.shape == (18, 2)
    assert (batch.input[:, 0] == PADDING).sum() == 2
    assert (batch.input[:, 1] == PADDING).sum() == 0


def test_read_at_the_reviews_end(data):
    split = IMDB(read_at="end", validation=4).load(0, data).test()
    batch = split.batch(torch.tensor([9, 0, 2]), generator(0, "x"))
    assert batch.lengths.tolist() == [25, 16, 18]


def test_the_mean_of_the_states_is_over_each_review(data):
    task = IMDB(read_at="mean", validation=4).load(0, data)
    assert task.read == "mean"
    assert task.notes[1] == "the mean of the states after all words of each review is read"
    assert task.test().batch(torch.tensor([9, 0, 2]), generator(0, "x")).lengths.tolist() == [25, 16, 18]


def test_length_limit(data):
    task = IMDB(longest=5, read_at="end", validation=4).load(0, data)
    batch, uncut = whole(task.test()), whole(IMDB(validation=4).load(0, data).test())
    assert task.length == 5
    assert torch.equal(batch.input, uncut.input[:5])
    assert batch.lengths.tolist() == [5] * 20


def test_lower_case(data):
    kept, lowered = (IMDB(lower=lower, validation=4) for lower in (False, True))
    words = vocabulary_of(kept, data)
    assert {"The", "the", "Good"} <= set(words)
    words = vocabulary_of(lowered, data)
    assert not {"The", "Good"} & set(words)
    first, second = (options.load(0, data) for options in (kept, lowered))
    assert first.notes[0] == "9 of the vocabulary's 16 words have a GloVe vector, case kept"
    assert second.notes[0] == "10 of the vocabulary's 15 words have a GloVe vector, in lower case"


def test_a_small_vocabulary_keeps_the_most_frequent_words(data):
    options = IMDB(vocabulary=2, validation=4)
    task = options.load(0, data)
    words = vocabulary_of(options, data)
    assert len(words) == 4
    assert task.words.shape == (4, 100)
    numbers, counts = whole(task.training).input.unique(return_counts=True)
    counted = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
    assert counted[FIRST] >= counted[FIRST + 1]
    assert counted[UNKNOWN] > 0


def test_the_vocabulary_is_of_the_training_part_alone(data):
    (data / "aclImdb" / "train" / "pos" / "3_9.txt").write_text("unique " * 500)
    found = set()
    for seed in range(8):
        task = IMDB(validation=10).load(seed, data)
        where = "training" if task.training.rows["length"].max() == 500 else "validation"
        rows = whole(getattr(task, where)).input
        longest = rows[:, (rows != PADDING).sum(0).argmax()]
        assert (longest == UNKNOWN).all() == (where == "validation")
        found.add(where)
    assert found == {"training", "validation"}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_by_film_both_sides_give_their_half(data, seed):
    task = IMDB(validation=10, by_film=True).load(seed, data)
    assert task.validation.rows["target"].sum() == 5
    assert (task.training.size, task.validation.size) == (10, 10)
    assert "other films" in " ".join(task.notes)


def test_the_embedding_starts_from_glove(data):
    vectors = tiny.write_glove(data)
    options = IMDB(validation=4)
    task = options.load(0, data)
    words = vocabulary_of(options, data)
    assert task.words.shape == (len(words), 100)
    assert (task.words[:FIRST] == 0).all()
    assert task.padding == PADDING
    for number, word in enumerate(words):
        if word in tiny.WORDS:
            vector = vectors[tiny.WORDS.index(word)]
            np.testing.assert_allclose(task.words[number].numpy(), vector, atol=6e-6)  # five digits are written
    without = task.words[[number for number, word in enumerate(words) if number >= FIRST and word not in tiny.WORDS]]
    assert without.std().item() == pytest.approx(1, abs=0.15)  # 700 numbers: five standard deviations are .13
    assert torch.equal(IMDB(validation=4).load(0, data).words, task.words)


def test_input_mean_is_that_of_the_embedded_words(data):
    task = IMDB(validation=4).load(0, data)
    numbers = whole(task.training).input.flatten()
    mean = task.words[numbers[numbers != PADDING]].mean(0)
    torch.testing.assert_close(torch.tensor(task.input_mean), mean, atol=1e-5, rtol=0)


def test_an_empty_review_is_one_step_of_padding(data):
    (data / "aclImdb" / "test" / "neg" / "0_2.txt").write_text("")
    split = IMDB(read_at="end", validation=4).load(0, data).test()
    batch = split.batch(torch.tensor([0]), generator(0, "x"))
    assert batch.input.tolist() == [[PADDING]]
    assert batch.lengths.tolist() == [1]


def test_without_vectors(data):
    (data / "glove.6B.100d.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r'no GloVe in .*: run "cornn data get glove"'):
        IMDB(validation=4).load(0, data)
