"""coRNN and its rivals at the same budget of tuning: as many random trials of as many steps for each, by validation.

The best trial of each is trained longer, from seeds of its own, and tested once. All that is done lies in files, one an
outcome, which appear whole: any number of workers share them, and what is killed loses only what was running.
"""

from cornn.lab.experiments.compare.contests import CONTESTS, Contest, select_contests
from cornn.lab.experiments.compare.jobs import Row, rows
from cornn.lab.experiments.compare.together import Ended, compare
from cornn.lab.experiments.compare.work import Place
from cornn.lab.recipes.ranges import ENTRANTS, Entrant

__all__ = ["CONTESTS", "ENTRANTS", "Contest", "Ended", "Entrant", "Place", "Row", "compare", "rows", "select_contests"]
