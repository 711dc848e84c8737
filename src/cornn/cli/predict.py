"""cornn predict"""

from dataclasses import dataclass
from pathlib import Path

import tyro

from cornn.cli.console import line, screen

__all__ = ["PredictCommand"]


@dataclass(frozen=True)
class PredictCommand:
    """Predict with a model that `cornn fit` left: one row a sequence, as CSV."""

    model: tyro.conf.Positional[Path]
    """The folder of `cornn fit`, or a file that an estimator saved."""
    data: tyro.conf.Positional[Path]
    """The file, laid out as the one that the model was fitted with; it needs no target."""
    out: Path | None = None
    """The CSV to write. Default: standard output."""

    def run(self) -> None:
        from cornn import fitting
        from cornn.fitting.readers import read

        estimator, layout, features = fitting.open_folder(self.model)
        data = read(self.data, layout, target_wanted=False)
        if features is not None and len(data.features) != len(features):
            raise ValueError(
                f"{self.data} has {len(data.features)} features, the model was fitted with {len(features)}: "
                f"{', '.join(features)}"
            )
        table = fitting.answers(estimator, data)
        text = fitting.as_csv(table)
        if self.out is None:
            print(text, end="")
            return
        fitting.write_text(self.out, text)
        line(screen(stderr=True), f"{len(table.rows):,} rows: {self.out}")
