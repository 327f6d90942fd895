"""The exception tree, on top of ``lance_namespace.errors``: same codes, same classes.

::

    LanceNamespaceError                         (lance_namespace)
    ├── UnsupportedOperationError            0
    ├── NamespaceNotFoundError               1
    ├── NamespaceAlreadyExistsError          2
    ├── NamespaceNotEmptyError               3
    ├── TableNotFoundError                   4
    ├── TableAlreadyExistsError              5
    ├── TableIndexNotFoundError              6
    ├── TableIndexAlreadyExistsError         7
    ├── TableTagNotFoundError                8
    ├── TableTagAlreadyExistsError           9
    ├── TransactionNotFoundError            10
    ├── TableVersionNotFoundError           11
    ├── TableColumnNotFoundError            12
    ├── InvalidInputError                   13
    ├── ConcurrentModificationError         14
    │   ├── CommitOutcomeUnknownError       14   (ours: landed or not, we could not find out)
    │   └── TableVersionAlreadyExistsError  12   (ours: see the ruling R1)
    ├── PermissionDeniedError               15
    ├── UnauthenticatedError                16
    ├── ServiceUnavailableError             17
    ├── InternalError                       18
    ├── InvalidTableStateError              19
    ├── TableSchemaValidationError          20
    ├── ThrottlingError                     21
    ├── TableBranchNotFoundError            22
    └── TableBranchAlreadyExistsError       23

A message says what happened, why, and what to do next; it is not API. The ``code`` is.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lance_namespace.errors import (
    ConcurrentModificationError,
    ErrorCode,
    InternalError,
    InvalidInputError,
    InvalidTableStateError,
    LanceNamespaceError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    PermissionDeniedError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
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
    ThrottlingError,
    TransactionNotFoundError,
    UnauthenticatedError,
    UnsupportedOperationError,
)

__all__ = [
    "CommitOutcomeUnknownError",
    "ConcurrentModificationError",
    "ErrorCode",
    "InternalError",
    "InvalidInputError",
    "InvalidTableStateError",
    "LanceNamespaceError",
    "NamespaceAlreadyExistsError",
    "NamespaceNotEmptyError",
    "NamespaceNotFoundError",
    "PermissionDeniedError",
    "ServiceUnavailableError",
    "TableAlreadyExistsError",
    "TableBranchAlreadyExistsError",
    "TableBranchNotFoundError",
    "TableColumnNotFoundError",
    "TableIndexAlreadyExistsError",
    "TableIndexNotFoundError",
    "TableNotFoundError",
    "TableSchemaValidationError",
    "TableTagAlreadyExistsError",
    "TableTagNotFoundError",
    "TableVersionAlreadyExistsError",
    "TableVersionNotFoundError",
    "ThrottlingError",
    "TransactionNotFoundError",
    "UnauthenticatedError",
    "UnsupportedOperationError",
    "storage_errors",
    "translate",
]


class TableVersionAlreadyExistsError(ConcurrentModificationError):
    """The version is taken. Code 12 as the text says; caught as a conflict (R1)."""

    # The library gives 12 to TABLE_COLUMN_NOT_FOUND; the number is what the text demands.
    code = ErrorCode(12)


class CommitOutcomeUnknownError(ConcurrentModificationError):
    """The commit may or may not have landed and could not be looked up. Check before retrying."""


# What a message of the Rust side contains, for errors that reach us as a bare OSError/RuntimeError.
# Numbers count only as an HTTP status: a filter of the user's may hold any number.
_DENIED: Final = re.compile(
    r"permission ?denied|access ?denied|403 forbidden|status: 403|read-only file system"
)
_UNAUTHENTICATED: Final = re.compile(
    r"unauthenticated|invalidaccesskeyid|signaturedoesnotmatch|401 unauthorized|status: 401"
)
_UNAVAILABLE: Final = re.compile(
    r"connection refused|error sending request|timed out|50[23] [a-z]+|status: 50[23]"
)


def translate(error: BaseException, what: str) -> LanceNamespaceError:
    """Return the error of ours for a failure below, with the cause left to the caller to chain.

    Refused permissions are 15, never 18 (R12); what nobody expected is 18.
    """
    if isinstance(error, LanceNamespaceError):
        return error
    text = str(error)
    low = text.lower()
    number = error.errno if isinstance(error, OSError) else None
    if (
        isinstance(error, PermissionError)
        or number in (errno.EACCES, errno.EPERM, errno.EROFS)
        or _DENIED.search(low)
    ):
        return PermissionDeniedError(
            f"{what}: permission denied ({_short(text)}). "
            "Check the rights of this user or the storage credentials."
        )
    if _UNAUTHENTICATED.search(low):
        return UnauthenticatedError(
            f"{what}: the store refused the credentials ({_short(text)}). "
            "Check the storage.* properties or the environment."
        )
    if number in (errno.ENOTDIR, errno.EEXIST) or "not a directory" in low:
        return InvalidInputError(
            f"{what}: a file lies where a folder is needed ({_short(text)}). "
            "Point root at a folder, or move the file away."
        )
    if number == errno.ENOSPC:
        return ServiceUnavailableError(f"{what}: no space left on the device. Free some; retry.")
    if isinstance(error, TimeoutError) or _UNAVAILABLE.search(low):
        return ServiceUnavailableError(
            f"{what}: the store did not answer ({_short(text)}). Retry later."
        )
    return InternalError(f"{what}: {type(error).__name__}: {_short(text)}")


@contextmanager
def storage_errors(what: str) -> Iterator[None]:
    """Turn failures of the file system, obstore or Lance inside the block into ours."""
    try:
        yield
    except LanceNamespaceError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        raise translate(error, what) from error


#: What stores answer of the credentials they refuse, and what signed addresses hold of them.
_SIGNED: Final = re.compile(
    r"(<(AWSAccessKeyId|StringToSign|StringToSignBytes|SignatureProvided|CanonicalRequest)>)"
    r".*?(</\2>|$)|([?&](?:sig|x-amz-(?:signature|credential|security-token))=)[^&\s)\"'>]+",
    re.IGNORECASE | re.DOTALL,
)


def _short(text: str, limit: int = 300) -> str:
    """The first line, without credentials and the build paths that Rust messages end in."""
    text = _SIGNED.sub(lambda m: f"{m[1] or m[4]}********{m[3] or ''}", text)
    line = text.split(", /home/runner/", 1)[0].split("\n", 1)[0]
    return line if len(line) <= limit else line[: limit - 1] + "…"
