"""Intervals of means and of differences, and the rule for "reproduced"."""

import numpy as np
import pytest
from scipy import stats

from cornn.lab.recipes import Published
from cornn.lab.report.intervals import compare, difference, mean_interval

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
