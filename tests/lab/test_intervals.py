"""Intervals of means and of differences, and the rule for "reproduced"."""

import numpy as np
import pytest
from scipy import stats

from cornn.lab.intervals import compare, describe, difference, difference_of_runs, mean_interval, shown_interval
from cornn.lab.recipes import Published

OURS = [58.1, 58.7, 58.4, 58.0, 58.8]


def test_interval_of_the_mean_is_student_s():
    found = mean_interval(OURS)
    known = stats.t.interval(0.95, len(OURS) - 1, np.mean(OURS), stats.sem(OURS))
    assert found == pytest.approx(known)
    assert mean_interval([1.0]) is None


def test_interval_of_a_difference_is_welch_s():
    other = np.array([58.9, 58.2, 58.6, 58.3])
    known = stats.ttest_ind(OURS, other, equal_var=False).confidence_interval(0.95)
    found = difference(OURS, other.mean(), other.std(ddof=1), len(other))
    assert found == pytest.approx((known.low, known.high))


def test_difference_of_runs_needs_two_of_each():
    ours, others = (91.0, 92.0, 94.0), (90.0, 90.5)
    assert difference_of_runs(ours, others) == difference(ours, 90.25, float(np.std(others, ddof=1)), 2)
    assert difference_of_runs(ours, others[:1]) is None
    assert difference_of_runs(ours[:1], others) is None


@pytest.mark.parametrize(
    ("values", "better", "text"),
    [
        ([96.0, 55.0, 69.0], "higher", "73.33 [21.56, 100.00]"),
        ([10.0, 39.0, 24.0], "higher", "24.33 [0.00, 60.36]"),
        ([1.0, 99.0], "higher", "50.00 [0.00, 100.00]"),
        ([0.001, 0.02, 0.3], "lower", "0.11 [0.00, 0.52]"),
        ([150.0, 160.0], "lower", "155.00 [91.47, 218.53]"),  # an error has no upper limit
        ([58.0], "higher", "58.00"),
    ],
)
def test_shown_interval_is_truncated_to_what_the_metric_can_be(values, better, text):
    assert describe(values, better, "{:.2f}".format) == text


def test_interval_inside_the_range_is_shown_as_it_is():
    assert shown_interval(OURS, "higher") == mean_interval(OURS)


def test_verdict_uses_the_whole_interval():
    """The interval of the difference, truncated at an accuracy of 100, would lie within the margin."""
    values = [100.0, 99.9, 99.8, 100.0, 98.8, 100.0]
    published = Published("tab", "coRNN", 128, 1, 100.0, mean=99.65, deviation=0.3)
    whole = difference(values, 99.65, 0.3, 10)
    assert whole is not None
    assert whole.high > 0.5 > 100.0 - 99.65
    assert compare(values, "higher", published) == "undecided"


@pytest.mark.parametrize(
    ("values", "mean", "verdict"),
    [
        ([58.5, 58.6, 58.4, 58.5], 58.5, "reproduced"),
        ([57.1, 57.0, 57.2, 57.1], 58.5, "differs"),
        ([58.1, 58.12, 58.08, 58.1], 58.5, "undecided"),  # the interval ends more than half a point below
        ([58.0, 59.5, 57.0, 58.5], 58.5, "undecided"),
        ([58.5], 58.5, "undecided"),
        ([58.5, 58.6], None, "no mean published"),
    ],
)
def test_verdict_of_an_accuracy(values, mean, verdict):
    deviation = None if mean is None else 0.3
    assert compare(values, "higher", Published("tab", "coRNN", 128, 1, 59.0, mean=mean, deviation=deviation)) == verdict


@pytest.mark.parametrize(("values", "verdict"), [([0.101, 0.1, 0.102], "reproduced"), ([0.05, 0.06, 0.055], "differs")])
def test_verdict_of_an_error_is_relative(values, verdict):
    assert compare(values, "lower", Published("tab", "coRNN", 64, 1, 0.1)) == verdict


def test_failed_runs_are_not_in_the_mean_so_nothing_is_reproduced():
    published = Published("tab", "coRNN", 128, 1, 58.5, mean=58.5, deviation=0.3)
    values = [58.5, 58.6, 58.4, 58.5]
    assert compare(values, "higher", published) == "reproduced"
    assert compare(values, "higher", published, failed=1) == "undecided"
    assert compare([value - 5 for value in values], "higher", published, failed=1) == "differs"


def test_a_single_other_number_counts_as_exact():
    own = mean_interval(OURS)
    assert own is not None
    assert difference(OURS, 58.0, None, 1) == pytest.approx((own.low - 58.0, own.high - 58.0))
