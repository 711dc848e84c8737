"""Parts of the forecasters that a forecast as a whole does not show."""

import numpy as np
import pytest

from cornn.forecasting import FAMILIES, covariates, pool, rules, seasons
from cornn.forecasting.readout import COVARIATE_LAGS, ReadoutSpec


def test_before_the_first_season_the_first_value_is_repeated():
    values = np.arange(1.0, 7.0)
    np.testing.assert_array_equal(rules.seasonal_naive(values, np.array([2, 5]), 3, 4), [[1, 1, 1], [2, 3, 4]])


def test_the_strongest_peaks_are_candidates():
    random = np.random.default_rng(0)
    assert len(seasons._find_peaks(random.normal(size=600), 200)) == 12


def test_too_few_changes_show_no_effect_of_a_covariate():
    for length, enough in ((8, False), (9, True)):  # three changes per covariate, and five
        covariate = np.sin(np.arange(length) ** 2)[:, None]
        found = covariates.fit_effect([5 + 3 * covariate[:, 0]], [covariate], log=False)
        assert (found is not None) == enough


@pytest.mark.parametrize(
    ("period", "given", "steps"), [(1, False, 1), (1, True, COVARIATE_LAGS), (2, False, 4), (12, True, 24)]
)
def test_a_row_needs_lags_and_two_seasons_or_the_lags_of_covariates(period, given, steps):
    spec = ReadoutSpec.choose(200, 4, period, seasonal=True, oscillators=False, covariates=given)
    assert spec.need == spec.lags + steps


def test_the_order_of_members_is_that_of_the_families():
    """Sums in another order round in another way: the same data must give the same forecasts in every process."""
    values = 20 + np.sin(np.arange(60)) + np.arange(60) / 9
    weights = pool.fit_pool([values], 2, (6,))[0].weights
    assert tuple(member.family for member in weights)[:5] == FAMILIES[:5]
