"""Points in time as results and messages show them: UTC, to the second or the millisecond."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["exact", "iso", "spoken"]


def iso(at_ms: int | None) -> str | None:
    """Return a time for programs; None for none, and for what no calendar holds."""
    moment = _moment(at_ms)
    return None if moment is None else moment.isoformat(timespec="seconds")


def exact(at_ms: int | None) -> str | None:
    """Return a time to the millisecond: typed again as a point of the past, it means the same."""
    moment = _moment(at_ms)
    return None if moment is None else moment.isoformat(timespec="milliseconds")


def spoken(at_ms: int | None) -> str:
    """Return a time for a sentence."""
    moment = _moment(at_ms)
    return "some time" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _moment(at_ms: int | None) -> datetime | None:
    if at_ms is None:
        return None
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        # A marker that another program wrote may hold any number.
        return None
