"""Wrong options of tasks are errors when the configuration is made, before data are read."""

import json

import pytest

from cornn.lab.config import as_dictionary, from_dictionary
from cornn.lab.recipes import resolve
from cornn.lab.tasks import TASKS

WRONG = [
    ("adding", {"length": 1}, "length is 1: the adding problem needs at least two steps"),
    ("lorenz96", {"force": float("nan")}, "force must be finite, got nan"),
    ("lorenz96", {"force": 1e6}, "force must lie between -100 and 100, got 1000000.0"),
    ("lorenz96", {"force": -101.0}, "force must lie between -100 and 100, got -101.0"),
    ("smnist", {"shift": -1}, "shift must not be below 0, got -1"),
    ("smnist", {"validation": 0}, "validation must be above 0 and below the number of sequences, 60,000, got 0"),
    ("smnist", {"validation": -1}, "validation must be above 0 and below the number of sequences, 60,000, got -1"),
    ("psmnist", {"validation": 60_000}, "validation must be above 0 and below the number of sequences, 60,000"),
    ("psmnist", {"shift": 28}, "shift must be below the 28 pixels of a side of the images, got 28"),
    ("psmnist", {"warp": -0.1}, "warp must not be below 0, got -0.1"),
    ("psmnist", {"permutation": 2**64}, "permutation must be at most"),
    ("psmnist", {"permutation": "other"}, "permutation must be a whole number or one of own, got 'other'"),
    ("noisy-cifar10", {"shift": -1}, "shift must not be below 0, got -1"),
    ("noisy-cifar10", {"shift": 32}, "shift must be below the 32 pixels of a side of the images, got 32"),
    ("noisy-cifar10", {"cutout": 40}, "cutout must be below the 32 pixels of a side of the images, got 40"),
    ("noisy-cifar10", {"warp": 15}, "warp must be below 1, got 15.0: it is a fraction, 0.15 warps by up to 15 %"),
    ("noisy-cifar10", {"validation": 50_000}, "validation must be above 0 and below the number of sequences, 50,000"),
    ("noisy-cifar10", {"standard": True, "whiten": 0.01}, "standardised already: use standard=False with whiten"),
    ("har2", {"jitter": -0.1}, "jitter must not be below 0, got -0.1"),
    ("har2", {"rotate": -1}, "rotate must not be below 0, got -1.0"),
    ("har2", {"scale": -0.1}, "scale must not be below 0, got -0.1"),
    ("har2", {"compress": -1}, "compress must not be below 0, got -1.0"),
    ("har2", {"stretch": 1}, "stretch must be below 1, got 1.0: it is a fraction, 0.1 changes by up to 10 %"),
    ("har2", {"held_people": 21}, "held_people must be below the 21 people to train on, got 21"),
    ("har2", {"held_people": 30, "test": "windows"}, "held_people must be below the 30 people to train on, got 30"),
    ("imdb", {"vocabulary": 0}, "vocabulary must be above 0, got 0"),
    ("imdb", {"longest": -1}, "longest must not be below 0, got -1"),
    ("imdb", {"drop_words": 1}, r"drop_words must lie in [0, 1), got 1.0"),
    ("imdb", {"validation": 25_000}, "validation must be above 0 and below the number of sequences, 25,000"),
    ("imdb", {"validation": 1, "by_film": True}, "validation with by_film: half of the reviews are positive"),
    ("imdb", {"validation": 24_999, "by_film": True}, "validation with by_film: half of the reviews are positive"),
]


@pytest.mark.parametrize(("task", "options", "sentence"), WRONG)
def test_wrong_options_are_errors_before_data_are_read(task, options, sentence):
    content = as_dictionary(resolve(task))
    content["task"] |= options
    makers = (
        lambda: TASKS[task](**options),
        lambda: resolve(task, **options),
        lambda: from_dictionary(json.loads(json.dumps(content))),
    )
    for make in makers:
        with pytest.raises(ValueError) as error:  # noqa: PT011
            make()
        assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("adding", {"length": 2}),
        ("lorenz96", {"force": -100}),
        ("psmnist", {"shift": 27, "warp": 0.9, "validation": 59_999, "permutation": -1}),
        ("noisy-cifar10", {"cutout": 31, "whiten": 0.1}),
        ("har2", {"held_people": 20}),
        ("har2", {"held_people": 29, "test": "windows"}),
        ("har2", {"held_people": 40, "validation": "random"}),
        ("imdb", {"validation": 24_998, "by_film": True}),
        ("imdb", {"validation": 2, "by_film": True}),
        ("imdb", {"validation": 1}),
    ],
)
def test_the_ends_of_the_ranges_are_options(task, options):
    assert as_dictionary(resolve(task, **options))["task"].items() >= options.items()
