"""Delete versions of a table: their manifests, never data (I36, O07, R10, unmanaged)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lance_catalog.errors import InvalidInputError, InvalidTableStateError, storage_errors
from lance_catalog.storage.port import Store
from lance_catalog.versions.files import (
    ManifestFile,
    branch_of,
    manifest_files,
    missing,
    no_branch,
    versions_folder,
)

__all__ = ["NO_END", "check_range", "delete_versions", "first_missing", "select_versions"]

#: ``end_version`` of a range without an end.
NO_END: Final = -1


def delete_versions(
    store: Store,
    directory: str,
    ranges: Iterable[tuple[int, int]],
    *,
    branch: str | None = None,
    ignore_missing: bool = True,
    force: bool = False,
) -> int:
    """Delete the manifests of the versions in ranges; return how many versions that were (I36).

    See :func:`select_versions` for what is refused, all of it before the first delete. Data files
    stay (O07). Oldest first: whatever stops us half way, the newest versions are left.
    """
    chosen = select_versions(
        store, directory, ranges, branch=branch, ignore_missing=ignore_missing, force=force
    )
    with storage_errors(f"deleting versions at {store.uri_of(directory)}"):
        store.delete([file.info.path for file in chosen])
    return len({file.version for file in chosen if not file.is_placeholder})


def select_versions(
    store: Store,
    directory: str,
    ranges: Iterable[tuple[int, int]],
    *,
    branch: str | None = None,
    ignore_missing: bool = True,
    force: bool = False,
) -> list[ManifestFile]:
    """Return the files that :func:`delete_versions` would delete, or raise as it would (R10).

    A range is [start, end); start 0 is the oldest version there is, end -1 has no end, (0, -1) is
    everything. 13 for a range that is none; 19 for the latest version in a partial range, and for
    everything unless ``force``; 11 for a missing version unless ``ignore_missing``.
    """
    spans = [check_range(start, end) for start, end in ranges]
    folder = versions_folder(directory, branch)
    where = store.uri_of(directory)
    with storage_errors(f"listing versions at {where}"):
        files = manifest_files(store, folder)
    present = sorted({file.version for file in files if not file.is_placeholder})
    if not present and branch_of(branch) is not None:
        raise no_branch(store, directory, branch)
    if (0, NO_END) in spans:
        if present and not force:
            raise InvalidTableStateError(
                f"deleting every version would leave the table at {where} unreadable. Drop the "
                "table instead, or force it (context 'lance_catalog.force'='true')."
            )
        # The names of removed versions protect nothing once no version is left.
        return files
    for start, end in spans:
        if present and start <= present[-1] and (end == NO_END or end > present[-1]):
            raise InvalidTableStateError(
                f"the range [{start}, {end}) contains version {present[-1]}, the latest of the "
                f"table at {where}, which stays. End the range at {present[-1]}."
            )
        gap = None if ignore_missing else first_missing(present, start, end)
        if gap is not None:
            raise missing(store, directory, gap)
    return [
        file
        for file in files
        if not file.is_placeholder and any(start <= file.version < end for start, end in spans)
    ]


def check_range(start: int, end: int) -> tuple[int, int]:
    """Return a range of versions in its plain form; 13 for one that is none."""
    if start < 0 or end < NO_END or NO_END < end < start:
        raise InvalidInputError(
            f"[{start}, {end}) is no range of versions: give a start of 0 or more and an end not "
            "below it, or -1 for no end"
        )
    # Versions count from 1 (O05), so these two mean the same.
    return (0, end) if start == 1 and end == NO_END else (start, end)


def first_missing(present: list[int], start: int, end: int) -> int | None:
    """Return the first of [start, end) that is not in the sorted list; ranges may be huge.

    A start of 0 is the oldest version there is, so nothing is missing before it.
    """
    expected = start or (present[0] if present else end)
    for version in present:
        if version < expected:
            continue
        if version > expected:
            break
        expected += 1
    return expected if end == NO_END or expected < end else None
