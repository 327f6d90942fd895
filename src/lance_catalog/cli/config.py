"""``config show``: what is in effect, and where it comes from."""

from __future__ import annotations

from lance_catalog.cli.command import command, group
from lance_catalog.cli.results import Listing, Result
from lance_catalog.cli.session import Session

__all__ = ["app"]

app = group("Look at the configuration.")


@command(app, "show", past=True)
def show(session: Session) -> Result:
    """Show the effective settings and where each comes from; secrets are masked."""
    from lance_catalog.cli.settings import config_path, mask

    settings = session.settings
    rows = [
        {"name": name, "value": mask(name, value), "origin": settings.origins[name]}
        for name, value in sorted(settings.values.items())
    ]
    path = config_path()
    found = "" if path.exists() else " (not there)"
    return Listing(
        rows=rows,
        columns=("name", "value", "origin"),
        plain=("name", "value", "origin"),
        note=f"configuration file: {path}{found}",
    )
