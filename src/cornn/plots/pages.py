"""Self-contained HTML pages from Jinja's templates."""

import re
from pathlib import Path
from typing import Any

from cornn._extras import missing_extra

__all__ = ["check_packages", "render"]


def check_packages(page: str) -> None:
    """Raise ImportError if a package for a page is missing. Call it before the work that the page shows.

    Args:
        page: What needs the packages, such as "the report".
    """
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError:
        raise missing_extra("report", f"{page} needs Jinja2 and matplotlib") from None


def render(template: Path, **values: Any) -> str:
    """Render a template, in which a missing value is an error and `number`, `percent` and `code` are filters."""
    import jinja2
    import markupsafe

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template.parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["number"] = lambda value: "-" if value is None else f"{value:.4g}"
    environment.filters["percent"] = lambda value: "-" if value is None else f"{100 * value:.0f} %"
    environment.filters["code"] = lambda text: markupsafe.Markup(
        re.sub("`([^`]*)`", r"<code>\1</code>", str(markupsafe.escape(text)))
    )
    return environment.get_template(template.name).render(**values)
