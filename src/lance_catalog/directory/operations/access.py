"""How the operations reach a table, and what they make of Lance's errors.

Lance answers with bare ``OSError``, ``RuntimeError`` or ``ValueError`` and a Rust text. The text is
the only thing that tells a missing column from a full disk, so it is matched here, in one table,
each row of which is pinned by a test against the installed pylance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import lance
import pyarrow as pa
from lance.commit import CommitConflictError

from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    InvalidInputError,
    LanceNamespaceError,
    TableBranchAlreadyExistsError,
    TableBranchNotFoundError,
    TableColumnNotFoundError,
    TableIndexAlreadyExistsError,
    TableIndexNotFoundError,
    TableNotFoundError,
    TableSchemaValidationError,
    TableTagAlreadyExistsError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
    translate,
)

__all__ = [
    "MAIN",
    "TableAccess",
    "Targeted",
    "checkout",
    "classify",
    "lance_errors",
    "open_target",
    "transaction_id",
]

MAIN: Final = "main"
"""The name Lance gives the default branch; in an open call it means no branch."""


class TableAccess(Protocol):
    """What an operation needs of the namespace: a table, opened."""

    def open_table(
        self,
        table_id: list[str] | None,
        /,
        *,
        version: int | None = None,
        branch: str | None = None,
        tag: str | None = None,
    ) -> lance.LanceDataset:
        """Open the table at its latest version, or at the one asked for.

        13 for no id, 1 and 4 for what does not exist, 11, 8 and 22 for a missing version, tag
        or branch.
        """
        ...


class Targeted(Protocol):
    """A request that names a table and, perhaps, one of its branches."""

    @property
    def id(self) -> list[str] | None: ...

    @property
    def branch(self) -> str | None: ...


def open_target(
    access: TableAccess, request: Targeted, *, version: int | None = None
) -> lance.LanceDataset:
    """Open the table and branch a request names."""
    branch = None if request.branch == MAIN else request.branch
    return access.open_table(request.id, version=version, branch=branch)


def checkout(
    dataset: lance.LanceDataset,
    what: str,
    *,
    version: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
) -> lance.LanceDataset:
    """Return ``dataset`` at a version, branch or tag, for an ``open_table`` to build on.

    13 when a tag comes with one of the others, 11, 8 and 22 for what is missing.
    """
    if tag is not None and (version is not None or branch is not None):
        raise InvalidInputError(f"{what}: give a tag, or a version and branch, not both")
    named = None if branch == MAIN else branch
    if tag is None and named is None and version is None:
        return dataset
    try:
        with lance_errors(what):
            return dataset.checkout_version((named, version) if tag is None else tag)
    except (TableVersionNotFoundError, TableBranchNotFoundError) as error:
        # Asked for a version of a branch that is not there, Lance misses the version.
        with lance_errors(what):
            if named is not None and named not in dataset.branches.list():
                raise TableBranchNotFoundError(
                    f"{what}: no branch '{named}'; list_table_branches shows those there are"
                ) from error
            newest = f"the latest is {dataset.latest_version}, and " if named is None else ""
        where = "" if named is None else f" on branch '{named}'"
        raise TableVersionNotFoundError(
            f"{what}: no version {version}{where}; "
            f"{newest}list_table_versions shows those there are"
        ) from error


def transaction_id(dataset: lance.LanceDataset) -> str | None:
    """The id of the transaction that made the version ``dataset`` stands at, if it can be read."""
    try:
        transaction = dataset.read_transaction(dataset.version)
    except (OSError, RuntimeError, ValueError, TypeError):
        # The commit has landed; to fail now would tell the caller that it has not.
        return None
    return None if transaction is None else transaction.uuid


_Rule = tuple[re.Pattern[str], type[LanceNamespaceError]]


def _rule(pattern: str, error: type[LanceNamespaceError]) -> _Rule:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL), error


# Order matters: a specific text before the general one that may surround it. All of these come
# before errors.translate, whose words ("403") may well occur in a filter that Lance quotes.
_RULES: Final[tuple[_Rule, ...]] = (
    _rule(r"commit result for version \d+ is unknown", CommitOutcomeUnknownError),
    _rule(r"version not found error|was not found.*\.manifest", TableVersionNotFoundError),
    _rule(r"not found: [^\n]*/tree/\S+/_versions", TableBranchNotFoundError),
    _rule(r"dataset at path [^\n]+ was not found", TableNotFoundError),
    _rule(r"ref not found error: tag", TableTagNotFoundError),
    _rule(r"ref not found error: branch", TableBranchNotFoundError),
    _rule(r"ref conflict error: tag .* already exists", TableTagAlreadyExistsError),
    _rule(r"ref conflict error: branch .* already exists", TableBranchAlreadyExistsError),
    # What pylance 14.0.2 says when the branch's first version is there already.
    _rule(r"clone operation should not enter build_manifest", TableBranchAlreadyExistsError),
    _rule(r"ref is invalid|ref conflict error", InvalidInputError),
    _rule(r"lance index not found|^'?index \".*\" not found", TableIndexNotFoundError),
    _rule(r"index name '.*' already exists", TableIndexAlreadyExistsError),
    _rule(
        r"incompatible transaction|commit conflict|too many concurrent writers",
        ConcurrentModificationError,
    ),
    _rule(r"append with different schema|duplicate field name", TableSchemaValidationError),
    _rule(r"column \S+ already exists in the dataset", TableSchemaValidationError),
    _rule(r"even though the field is marked non-null", TableSchemaValidationError),
    _rule(r"cannot cast column|cannot be made non-nullable", TableSchemaValidationError),
    _rule(r"can't cast value .* to type", TableSchemaValidationError),
    _rule(r"top level field .* cannot contain", TableSchemaValidationError),
    _rule(r"cannot drop all columns", TableSchemaValidationError),
    _rule(r"no field named|field '.*' not found|not found in schema", TableColumnNotFoundError),
    _rule(
        r"(column|field path) \S+ does not exist|column .* is not in the dataset",
        TableColumnNotFoundError,
    ),
    _rule(r"invalid user input|sql parser error|invalid argument error", InvalidInputError),
    _rule(r"lanceerror\((schema|arrow|index)\)|not supported: ", InvalidInputError),
)

# Lance says what is missing; this says where to look for what is there.
_NEXT: Final[dict[type[LanceNamespaceError], str]] = {
    TableTagNotFoundError: "; list_table_tags shows those there are",
    TableBranchNotFoundError: "; list_table_branches shows those there are",
    TableIndexNotFoundError: "; list_table_indices shows those there are",
}

# Messages that come through Rust but are about the machine, whatever their Python class.
_MACHINE: Final = re.compile(
    r"^(external error: )?(namespace error|lanceerror\(io\)|encountered internal error)", re.I
)


def classify(error: Exception, what: str) -> LanceNamespaceError:
    """Return the error of ours for one of Lance's."""
    if isinstance(error, LanceNamespaceError):
        return error
    text = str(error)
    if isinstance(error, CommitConflictError):
        advice = "Retry." if error.retryable else "Read the table again before you retry."
        return ConcurrentModificationError(f"{what}: another writer was first. {advice}")
    for pattern, kind in _RULES:
        if pattern.search(text):
            return kind(f"{what}: {_readable(text)}{_NEXT.get(kind, '')}")
    if isinstance(error, _CALLER) and not _MACHINE.match(text):
        return InvalidInputError(f"{what}: {_readable(text)}")
    return translate(error, what)


# Rust errors come as the first three, pylance's own checks of arguments as the next two, a number
# that does not fit as the sixth, and Arrow has some of its own.
_FROM_LANCE: Final = (
    OSError,
    RuntimeError,
    ValueError,
    TypeError,
    KeyError,
    OverflowError,
    pa.ArrowException,
)
_CALLER: Final = (ValueError, TypeError, KeyError, NotImplementedError, OverflowError)


@contextmanager
def lance_errors(what: str) -> Iterator[None]:
    """Turn Lance's errors inside the block into ours; ``what`` opens the message."""
    try:
        yield
    except LanceNamespaceError:
        raise
    except _FROM_LANCE as error:
        raise classify(error, what) from error


# A Rust message ends in the source lines it passed, and may dump the whole schema in its middle.
_BUILD_PATHS: Final = re.compile(r",( location:)? /home/runner/[^\s,]+", re.DOTALL)
_DUMP: Final = re.compile(r"(:\s*| )(Schema|Field) ?[{(].*", re.DOTALL)
_PREFIXES: Final = re.compile(r"^((Invalid user input|LanceError\(\w+\)|Ref [\w ]+error): )+")


def _readable(text: str, limit: int = 300) -> str:
    text = _PREFIXES.sub("", _DUMP.sub("", _BUILD_PATHS.sub("", text))).strip()
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
