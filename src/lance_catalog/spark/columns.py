"""Whether files that were written for a version of a table fit a later one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lance_catalog.errors import TableSchemaValidationError

__all__ = ["require_same_columns"]


def require_same_columns(before: Any, now: Any, text: str) -> None:
    """Refuse (20) files whose columns are not the table's any more; new ones may be null."""
    if before.version == now.version:
        return
    then, current = _columns(before), _columns(now)
    for name, (number, kind) in then.items():
        if name not in current:
            what = "is gone"
        elif current[name][0] != number or not current[name][1].equals(kind):
            what = f"became {current[name][1].type}"
        else:
            continue
        raise TableSchemaValidationError(
            f"column '{name}' of '{text}' {what} while the job ran; nothing was written. "
            "Run it again, with the columns the table has now."
        )
    added = [name for name in current if name not in then and not current[name][1].nullable]
    if added:
        raise TableSchemaValidationError(
            f"column '{added[0]}' of '{text}', which cannot be null, was added while the job ran; "
            "nothing was written. Run it again with that column."
        )


def _columns(dataset: Any) -> dict[str, tuple[int, pa.Field]]:
    numbers = {one.name(): one.id() for one in dataset.lance_schema.fields()}
    return {one.name: (numbers[one.name], one) for one in dataset.schema}
