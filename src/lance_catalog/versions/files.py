"""Versions of a table as the files that they are: list and describe (I34, I35, unmanaged).

A version is a manifest of at least one byte in ``<directory>/_versions``, or for a branch in
``<directory>/tree/<branch>/_versions``. Empty files are placeholders under the names of versions
that retention removed; they only keep the name taken.

Always by a listing, never by Lance's ``latest_version_hint.json``: a tag can keep an old version
alive, and a stale hint that points there would pass for the latest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from lance_namespace import TableVersion

from lance_catalog.errors import (
    InvalidInputError,
    TableBranchNotFoundError,
    TableVersionNotFoundError,
    storage_errors,
)
from lance_catalog.storage.manifests import Naming, manifest_name, parse_manifest_name
from lance_catalog.storage.port import ObjectInfo, Store

__all__ = [
    "ManifestFile",
    "as_table_version",
    "branch_of",
    "describe_version",
    "list_versions",
    "manifest_files",
    "missing",
    "no_branch",
    "parse_token",
    "versions_folder",
]

#: What Lance calls the branch that has no folder of its own.
_MAIN: Final = "main"
#: Lance counts in u64, the models in i64; a file beyond is no version.
_MAX_VERSION: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """The manifest of one version, or the placeholder of one that is gone."""

    version: int
    naming: Naming
    info: ObjectInfo

    @property
    def is_placeholder(self) -> bool:
        return self.info.size == 0


def branch_of(branch: str | None) -> str | None:
    """Return the branch, None for main; 13 for a name that could lead out of the table."""
    if not branch or branch == _MAIN:
        return None
    parts = branch.split("/")
    if any(part in ("", ".", "..") for part in parts) or any(c < " " or c == "\\" for c in branch):
        raise InvalidInputError(
            f"{branch!r} is no name of a branch: its parts between '/' may not be empty, '.' or "
            "'..', nor hold '\\' or control characters"
        )
    return branch


def versions_folder(directory: str, branch: str | None) -> str:
    """Return where the manifests of a branch lie."""
    name = branch_of(branch)
    return f"{directory}/_versions" if name is None else f"{directory}/tree/{name}/_versions"


def manifest_files(store: Store, folder: str) -> list[ManifestFile]:
    """Return the manifests in a folder, placeholders too, oldest version first.

    A table that another implementation let slip into both naming schemes has two files of one
    version; the V2 name comes last, as Lance looks for it first.
    """
    found = []
    for info in store.list_level(folder).objects:
        parsed = parse_manifest_name(info.path.rsplit("/", 1)[-1])
        if parsed is not None and 1 <= parsed[0] <= _MAX_VERSION:
            found.append(ManifestFile(*parsed, info))
    return sorted(found, key=lambda file: (file.version, file.naming.value))


def as_table_version(store: Store, version: int, info: ObjectInfo) -> TableVersion:
    """Return the library's model of a version.

    ``manifest_path`` is the path in Lance's object store, as native gives it: no scheme, no
    bucket, no leading slash.
    """
    root = unquote(store.uri.partition("://")[2].partition("/")[2])
    return TableVersion(
        version=version,
        manifest_path=f"{root}/{info.path}" if root else info.path,
        manifest_size=info.size,
        e_tag=info.e_tag,
        timestamp_millis=info.modified_ms,
    )


def list_versions(
    store: Store,
    directory: str,
    *,
    branch: str | None = None,
    descending: bool | None = None,
    limit: int | None = None,
    page_token: str | None = None,
) -> tuple[list[TableVersion], str | None]:
    """Return a page of versions, latest first unless ``descending`` is False, and the next token.

    The token is the last version of the page, so that versions may come and go between pages. No
    limit or a negative one is everything, 0 an empty page without a token. A table that is only
    declared has no versions; a branch without any does not exist (22).
    """
    after = parse_token(page_token)
    files = _present(store, directory, branch)
    versions = sorted(files, reverse=descending is not False)
    if after is not None:
        versions = [v for v in versions if (v > after if descending is False else v < after)]
    token = None
    if limit is not None and limit >= 0:
        if 0 < limit < len(versions):
            token = str(versions[limit - 1])
        versions = versions[:limit]
    return [as_table_version(store, v, files[v].info) for v in versions], token


def describe_version(
    store: Store, directory: str, version: int | None = None, branch: str | None = None
) -> TableVersion:
    """Return one version, the latest for None; 11 when it is missing, 22 for a missing branch."""
    if version is None:
        files = _present(store, directory, branch)
        if not files:
            raise TableVersionNotFoundError(
                f"the table at {store.uri_of(directory)} is declared but has no version yet; "
                "write to it first"
            )
        latest = max(files)
        return as_table_version(store, latest, files[latest].info)
    folder = versions_folder(directory, branch)
    if 1 <= version <= _MAX_VERSION:
        with storage_errors(f"looking for version {version} at {store.uri_of(directory)}"):
            for naming in (Naming.V2, Naming.V1):
                info = store.head(f"{folder}/{manifest_name(version, naming)}")
                if info is not None and info.size > 0:
                    return as_table_version(store, version, info)
    _present(store, directory, branch)
    raise missing(store, directory, version)


def _present(store: Store, directory: str, branch: str | None) -> dict[int, ManifestFile]:
    """Return the versions of a branch by number; 22 for a branch without any."""
    folder = versions_folder(directory, branch)
    with storage_errors(f"listing versions at {store.uri_of(directory)}"):
        files = manifest_files(store, folder)
    found = {file.version: file for file in files if not file.is_placeholder}
    if not found and branch_of(branch) is not None:
        raise no_branch(store, directory, branch)
    return found


def parse_token(token: str | None) -> int | None:
    """Return the version a page ended at; 13 for a token that is not ours."""
    if not token:
        return None
    if not (token.isascii() and token.isdigit()):
        raise InvalidInputError(
            f"page_token {token!r} is not one of ours; pass the token of the page before, or none"
        )
    return int(token)


def no_branch(store: Store, directory: str, branch: str | None) -> TableBranchNotFoundError:
    """Return the error for a branch that is not there."""
    return TableBranchNotFoundError(
        f"the table at {store.uri_of(directory)} has no branch '{branch}'; "
        "list_table_branches shows those it has"
    )


def missing(store: Store, directory: str, version: int) -> TableVersionNotFoundError:
    """Return the error for a version that is not there."""
    return TableVersionNotFoundError(
        f"the table at {store.uri_of(directory)} has no version {version}; it never had, or it "
        "was cleaned up. list_table_versions shows what is there."
    )
