"""What processes of races and crashes have imported when they start; nothing here calls Lance."""

from __future__ import annotations

import warnings

import tests.concurrency.victims  # noqa: F401 (it brings the catalog, Lance and Arrow)

warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)
