"""Make a version of a staged manifest (I30): of many who try the same number, one succeeds.

The caller has written the manifest under a name of its own beside the final ones. We decide
whether its number is the next, put the bytes under the final name if that is free, and remove the
staged file. Nothing but the name is taken from the staged path: Lance hands out paths of its own
object store, percent-encoded or not, and the folder is known here, so that a request can neither
read nor delete outside of the table's ``_versions``.
"""

from __future__ import annotations

from typing import Final

from lance_namespace import TableVersion

from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    InvalidInputError,
    TableVersionAlreadyExistsError,
    storage_errors,
)
from lance_catalog.storage.capabilities import require_put_if_absent
from lance_catalog.storage.manifests import Naming, manifest_name, parse_manifest_name
from lance_catalog.storage.port import Store
from lance_catalog.versions.files import (
    ManifestFile,
    as_table_version,
    branch_of,
    manifest_files,
    versions_folder,
)

__all__ = ["check_version", "create_version", "staged_name"]

_HINT: Final = "latest_version_hint.json"


def create_version(
    store: Store,
    directory: str,
    version: int,
    manifest_path: str,
    *,
    naming_scheme: str | None = None,
    manifest_size: int | None = None,
    branch: str | None = None,
) -> TableVersion:
    """Finalize a staged manifest as ``version``, which must be the latest plus one.

    The first version of a branch has the number of the version that it starts from, hence any.
    Same bytes again: success again. 12 (R1) when the version is there with other bytes, 14 when
    the number is not the next, 13 when nothing is staged or the naming scheme is not the table's.
    A staged file that can never land any more is removed with the refusal.
    """
    require_put_if_absent(store)
    where = store.uri_of(directory)
    with storage_errors(f"creating version {version} at {where}"):
        folder = versions_folder(directory, branch)
        staged = f"{folder}/{staged_name(manifest_path)}"
        data = store.get(staged)
        files = manifest_files(store, folder)
        try:
            naming = _naming(files, naming_scheme, where)
            taken = _taken(store, files, version, data)
            if taken is None:
                _check(files, version, data, manifest_size, branch, staged, where)
                assert data is not None
                taken = _land(store, folder, version, naming, data, _latest(files), where)
        except ConcurrentModificationError as error:
            # A number that others have passed can never land; Lance stages anew for the next one.
            if isinstance(error, TableVersionAlreadyExistsError) or version < _next(files):
                store.delete([staged])
            raise
        store.delete([staged])
        return taken


def check_version(
    store: Store,
    directory: str,
    version: int,
    manifest_path: str,
    *,
    naming_scheme: str | None = None,
    manifest_size: int | None = None,
    branch: str | None = None,
) -> None:
    """Raise what :func:`create_version` would raise now, and write nothing."""
    where = store.uri_of(directory)
    with storage_errors(f"checking version {version} at {where}"):
        folder = versions_folder(directory, branch)
        staged = f"{folder}/{staged_name(manifest_path)}"
        data = store.get(staged)
        files = manifest_files(store, folder)
        _naming(files, naming_scheme, where)
        if _taken(store, files, version, data) is None:
            _check(files, version, data, manifest_size, branch, staged, where)


def staged_name(manifest_path: str) -> str:
    """Return the name a manifest was staged under; 13 for one that cannot be."""
    name = manifest_path.rsplit("/", 1)[-1]
    if name in ("", ".", "..", _HINT) or any(c < " " for c in name):
        raise InvalidInputError(f"manifest_path {manifest_path!r} does not name a staged manifest")
    if parse_manifest_name(name) is not None:
        # It would be deleted after the copy, and with it a version of the table.
        raise InvalidInputError(
            f"manifest_path {manifest_path!r} is the final name of a version. Stage the manifest "
            f"under another one, such as '{name}-<uuid>'."
        )
    return name


def _naming(files: list[ManifestFile], scheme: str | None, where: str) -> Naming:
    """Return the scheme of the table, which a request may state but not change (I37)."""
    asked: Naming | None = None
    if scheme is not None:
        try:
            asked = Naming(scheme.upper())
        except ValueError as error:
            raise InvalidInputError(f"naming_scheme '{scheme}': known are V1 and V2") from error
    if not files:
        return asked or Naming.V2
    kept = files[-1].naming
    if asked is not None and asked is not kept:
        raise InvalidInputError(
            f"the table at {where} names its manifests by {kept.value}, the request asks for "
            f"{asked.value}; two schemes in one table hide versions. Reopen the table and retry."
        )
    return kept


def _latest(files: list[ManifestFile]) -> ManifestFile | None:
    return next((file for file in reversed(files) if not file.is_placeholder), None)


def _next(files: list[ManifestFile]) -> int:
    latest = _latest(files)
    return 1 if latest is None else latest.version + 1


def _taken(
    store: Store, files: list[ManifestFile], version: int, data: bytes | None
) -> TableVersion | None:
    """Return the version if it is there with these bytes, None if its name is free; else 12."""
    for file in files:
        if file.version == version:
            if data and store.get(file.info.path) == data:
                return as_table_version(store, version, file.info)
            raise _exists(version)
    return None


def _exists(version: int) -> TableVersionAlreadyExistsError:
    return TableVersionAlreadyExistsError(
        f"version {version} exists already, written by somebody else or by an earlier try of "
        "yours; describe_table_version shows it. Rebase on the latest version and retry."
    )


def _check(
    files: list[ManifestFile],
    version: int,
    data: bytes | None,
    size: int | None,
    branch: str | None,
    staged: str,
    where: str,
) -> None:
    """Refuse a version that is not the next, or has nothing staged."""
    if version < 1:
        raise InvalidInputError(f"version {version}: versions count from 1")
    starts_branch = branch_of(branch) is not None and _latest(files) is None
    if version != _next(files) and not starts_branch:
        raise ConcurrentModificationError(
            f"version {version} is not the next of the table at {where}, which is {_next(files)}. "
            "Rebase on the latest version and retry."
        )
    if not data:
        raise InvalidInputError(
            f"nothing is staged at '{staged}'. The manifest must lie beside the table's versions "
            "when create_table_version is called."
        )
    if size is not None and size != len(data):
        raise InvalidInputError(
            f"the staged manifest '{staged}' has {len(data)} bytes, the request says {size}; it "
            "was not written whole, or another one was meant"
        )


def _land(
    store: Store,
    folder: str,
    version: int,
    naming: Naming,
    data: bytes,
    before: ManifestFile | None,
    where: str,
) -> TableVersion:
    final = f"{folder}/{manifest_name(version, naming)}"
    if not store.put_if_absent(final, data) and store.get(final) != data:
        raise _exists(version)
    if before is None:
        # Without a version there is no scheme to keep: one of each could win side by side. Who
        # comes second sees the first, so at most one is acknowledged.
        other = Naming.V1 if naming is Naming.V2 else Naming.V2
        if store.head(f"{folder}/{manifest_name(version, other)}") is not None:
            store.delete([final])
            raise ConcurrentModificationError(
                f"version {version} was made by two schemes of naming at once. Retry."
            )
    elif _is_gone(store, before.info.path):
        _look_behind(store, folder, version, final, where)
    info = store.head(final)
    if info is None:
        raise CommitOutcomeUnknownError(
            f"version {version} at {where} landed and was gone at once: a clean-up passed. Look "
            "at the table before retrying."
        )
    return as_table_version(store, version, info)


def _is_gone(store: Store, path: str) -> bool:
    info = store.head(path)
    return info is None or info.size == 0


def _look_behind(store: Store, folder: str, version: int, final: str, where: str) -> None:
    """A clean-up removed our predecessor meanwhile: are we still in front?

    If others went ahead, and the clean-up took the version that had our number, we have landed in
    the past, where no reader looks. It cannot be told from their having built upon ours, so the
    file goes, as a clean-up would have it, and Lance, finding nothing, reports an unknown outcome
    instead of an acknowledged loss.
    """
    if any(f.version > version and not f.is_placeholder for f in manifest_files(store, folder)):
        store.delete([final])
        raise CommitOutcomeUnknownError(
            f"a clean-up passed while version {version} at {where} was created; whether later "
            "versions hold it is not known. Read the table before retrying."
        )
