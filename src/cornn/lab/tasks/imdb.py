"""IMDB: classify film reviews as positive or negative.

As in the authors' code: 7,500 of the 25,000 training reviews are the validation split; the vocabulary is the 25,000
most frequent words of the rest, after unknown and padding; the embedding is initialised from GloVe (unknown and padding
with zeros, words without a vector at random) and trained; case is kept, although GloVe's words are lower case; reviews
are not truncated; a batch is padded to its longest review and the network runs through the padding, whose vector stays
zero. The authors tokenise with spaCy, this module with the regular expression in `cornn.lab.data.imdb`.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from cornn._arguments import ArgumentError, Setting
from cornn._checked import Count, Natural, Share
from cornn._random import generator
from cornn.lab.data import find_folder, glove, imdb
from cornn.lab.tasks.scores import binary_accuracy, logistic
from cornn.lab.tasks.task import Batch, Make, Split, Task, TaskOptions, check_held_out, hold_out

UNKNOWN, PADDING, FIRST = 0, 1, 2
"""Indices of the two special words and of the most frequent word."""

READ_AT = {
    "padding": "the state is read after the padding",
    "end": "the state is read at each review's end",
    "mean": "the mean of the states after all words of each review is read",
}
"""Where the state is read, in words."""

RUN = 250
"""Number of consecutive reviews that are held out together: several films with at most thirty reviews each."""


@dataclass(frozen=True)
class IMDB(TaskOptions):
    """Film reviews, one word per step: positive or negative. Needs `cornn data get imdb` and `glove`."""

    read_at: Literal["padding", "end", "mean"] = "padding"
    """Where the state is read: after the padding of the batch, as in the authors' code, at each review's own end, or
    after every word of the review, as a mean."""
    lower: bool = False
    """Convert words to lower case, as GloVe does. The authors keep case."""
    longest: Natural = 0
    """Maximum number of words per review. 0: no limit."""
    vocabulary: Count = 25_000
    """Size of the vocabulary: the most frequent words of the training split."""
    validation: int = 7500
    """Number of training reviews held out for validation, drawn from the seed."""
    by_film: bool = False
    """Hold out consecutive reviews in the publisher's order, which is sorted by film. Most are then about other films
    than the training reviews, as in the test split; a random selection overestimates the accuracy."""
    drop_words: Share = 0.0
    """Fraction of the words of a training review that are replaced by the unknown word, drawn at every presentation."""

    name: ClassVar[str] = "imdb"
    embedded: ClassVar[bool] = True

    def check(self) -> None:
        check_held_out(self.validation, imdb.REVIEWS)
        if self.by_film and not 1 < self.validation < imdb.REVIEWS - 1:
            problem = (
                f": half of the reviews are positive, and {self.validation:,} of {imdb.REVIEWS:,} cannot be held out"
            )
            raise ArgumentError(Setting("validation"), " with ", Setting("by_film"), problem)

    def load(self, seed: int, data: Path | None = None) -> Task:
        data_folder = find_folder(data)
        imdb.find(data_folder)
        glove.find(data_folder)
        reviews = imdb.read(data_folder, "train")
        training, validation = self._held_out(reviews.positive, generator(seed, "imdb", "validation"))
        vocabulary, counts = self._vocabulary(reviews, training.numpy())
        vectors, known = _initial_vectors(vocabulary, data_folder, generator(seed, "imdb", "vectors"))
        split = self._split(reviews, vocabulary)
        lengths = split.rows["length"][training]
        training_split = _select_rows(split, training)
        if self.drop_words:
            make = functools.partial(_make_with_dropped_words, split.make, self.drop_words)
            training_split = replace(training_split, make=make, draws=True)
        return Task(
            name="imdb",
            inputs=glove.SIZE,
            outputs=1,
            length=int(lengths.max()),
            input_mean=tuple((torch.from_numpy(counts / counts.sum()).float() @ vectors).tolist()),
            training=training_split,
            validation=_select_rows(split, validation),
            test=lambda: self._split(imdb.read(data_folder, "test"), vocabulary),
            loss=logistic,
            score=binary_accuracy,
            metric="accuracy",
            better="higher",
            trivial=50.0,
            trivial_words="for always giving the same answer",
            words=vectors,
            padding=PADDING,
            read="mean" if self.read_at == "mean" else "last",
            notes=(
                f"{known:,} of the vocabulary's {len(vocabulary):,} words have a GloVe vector, "
                f"{'in lower case' if self.lower else 'case kept'}",
                READ_AT[self.read_at],
                *(("validation reviews are mostly about other films than training reviews",) if self.by_film else ()),
                *((f"{self.drop_words:.0%} of the words of training reviews are unknown",) if self.drop_words else ()),
            ),
        )

    def _held_out(self, positive: np.ndarray, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return the indices of the training and validation reviews."""
        if not self.by_film:
            return hold_out(len(positive), self.validation, random)
        # Positive and negative reviews are numbered separately; half of the split comes from each.
        training, validation = [], []
        for side, count in ((0, self.validation // 2), (1, self.validation - self.validation // 2)):
            numbers = torch.from_numpy(np.flatnonzero(positive == side))
            training_indices, validation_indices = hold_out(len(numbers), count, random, RUN)
            training.append(numbers[training_indices])
            validation.append(numbers[validation_indices])
        return torch.cat(training), torch.cat(validation)

    def _vocabulary(self, reviews: imdb.Reviews, training: np.ndarray) -> tuple[list[str], np.ndarray]:
        """Return the most frequent words of the training split, and how often each occurs."""
        names, number_of = self._apply_case(reviews.lexicon)
        is_training = np.zeros(len(reviews.lengths), bool)
        is_training[training] = True
        words = number_of[reviews.words[np.repeat(is_training, reviews.lengths)]]
        counts = np.bincount(words, minlength=len(names))
        # Equally frequent words are in alphabetical order, so that the order of the files does not matter.
        order = np.lexsort((np.array(names), -counts))[: self.vocabulary]
        order = order[counts[order] > 0]
        rest = counts.sum() - counts[order].sum()
        return [names[number] for number in order], np.concatenate(([rest, 0], counts[order]))

    def _apply_case(self, lexicon: Sequence[str]) -> tuple[list[str], np.ndarray]:
        """Return the distinct words, in lower case if requested, and the index of each word of the lexicon."""
        numbers: dict[str, int] = {}
        index_of_word = [numbers.setdefault(word.lower() if self.lower else word, len(numbers)) for word in lexicon]
        return list(numbers), np.array(index_of_word, np.int64)

    def _split(self, reviews: imdb.Reviews, vocabulary: Sequence[str]) -> Split:
        """Return all reviews of a split. Their words are one long row, which `start` and `length` index."""
        numbers = {word: FIRST + rank for rank, word in enumerate(vocabulary)}
        names = (word.lower() if self.lower else word for word in reviews.lexicon)
        number_of_word = np.array([numbers.get(word, UNKNOWN) for word in names], np.int32)
        start = np.concatenate(([0], np.cumsum(reviews.lengths, dtype=np.int64)[:-1]))
        lengths = np.minimum(reviews.lengths, self.longest) if self.longest else reviews.lengths
        rows = {
            "start": torch.from_numpy(start),
            "length": torch.from_numpy(lengths.astype(np.int64)),
            "target": torch.from_numpy(reviews.positive.astype(np.float32)),
        }
        shared = {"words": torch.from_numpy(number_of_word[reviews.words])}
        return Split(len(start), functools.partial(_make, self.read_at != "padding"), rows, shared, ragged=True)


def _select_rows(split: Split, chosen: Tensor) -> Split:
    return replace(split, size=len(chosen), rows={name: rows[chosen] for name, rows in split.rows.items()})


def _initial_vectors(vocabulary: Sequence[str], where: Path, random: torch.Generator) -> tuple[Tensor, int]:
    """Return the initial embedding, (2 + words, 100), and how many of the words GloVe contains."""
    words, known = glove.read(where)
    row_of_word = {word: number for number, word in enumerate(words)}
    rows = np.array([row_of_word.get(word, -1) for word in vocabulary])
    vectors = torch.randn(FIRST + len(vocabulary), glove.SIZE, generator=random)
    vectors[:FIRST] = 0
    in_glove = np.flatnonzero(rows >= 0)
    vectors[torch.from_numpy(in_glove) + FIRST] = torch.from_numpy(known[rows[in_glove]])
    return vectors, len(in_glove)


def _make(own_lengths: bool, rows: dict[str, Tensor], shared: Mapping[str, Tensor], random: torch.Generator) -> Batch:
    """Make a batch.

    It has as many steps as its longest review, which the host must know: unlike the batches of other tasks it cannot be
    made within a CUDA graph.
    """
    lengths = rows["length"].clamp(min=1)  # an empty review has one step of padding
    step = torch.arange(int(lengths.max()), device=lengths.device).unsqueeze(1)
    outside = step >= rows["length"]
    words = shared["words"][(rows["start"] + step).masked_fill(outside, 0)].long().masked_fill(outside, PADDING)
    return Batch(words, rows["target"], lengths if own_lengths else None)


def _make_with_dropped_words(
    make: Make, share: float, rows: dict[str, Tensor], shared: Mapping[str, Tensor], random: torch.Generator
) -> Batch:
    """Make a batch in which a share of the words is unknown."""
    batch = make(rows, shared, random)
    uniform = torch.rand(batch.input.shape, generator=random, device=batch.input.device)
    is_dropped = (uniform < share) & (batch.input != PADDING)
    return batch._replace(input=batch.input.masked_fill(is_dropped, UNKNOWN))
