"""Random search for settings, by validation only, shared by any number of workers.

The trials are in an Optuna study: a SQLite file, or a database that workers on many machines reach. Each worker takes
one trial after another until as many as are wanted are done. What a trial tries depends on the seed and on its number
alone, not on the worker that takes it. A trial ends

    complete    trained to its end;
    pruned      stopped early, behind the median of the others;
    failed      diverged, or ran out of memory: the reason is kept;
    set aside   its worker was stopped, and another trial tries the same, or it was one too many: it does not count.
"""

from cornn.lab.experiments.search.spec import Search, check, configuration, hidden, space
from cornn.lab.experiments.search.status import Follow, Standing, unfollowed, write

__all__ = ["Follow", "Search", "Standing", "check", "configuration", "hidden", "run", "space", "write"]


def run(plan: Search, follow: Follow = unfollowed) -> Standing:
    """Work on the trials until as many as are wanted are done, by this worker and the others."""
    check(plan)
    # Optuna is an extra: only here is it known to be installed.
    from cornn.lab.experiments.search.work import work

    return work(plan, follow)
