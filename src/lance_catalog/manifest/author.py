"""On whose behalf this process commits: kept with each version of the manifest, for its history."""

from __future__ import annotations

import functools
import getpass
import os
import socket
from typing import Final

__all__ = ["WHO", "author"]

#: In the properties of a commit's transaction.
WHO: Final = "lance_catalog.who"
#: Says it instead of the user and host, for services and jobs.
VARIABLE: Final = "LANCE_CATALOG_ACTOR"


@functools.cache
def author() -> str:
    """Return who commits: what the environment says, else user and host."""
    given = os.environ.get(VARIABLE)
    if given:
        return given[:200]
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
