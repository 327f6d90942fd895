"""Transactions: what made a version.

Lance keeps only transactions that were committed, so each one found has succeeded and none can
change any more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import lance
from lance_namespace import (
    AlterTransactionRequest,
    AlterTransactionResponse,
    DescribeTransactionRequest,
    DescribeTransactionResponse,
)
from lance_namespace_urllib3_client.models.alter_transaction_action import (
    AlterTransactionAction,
)

from lance_catalog.directory.operations.access import TableAccess, lance_errors
from lance_catalog.errors import (
    InvalidInputError,
    InvalidTableStateError,
    TransactionNotFoundError,
)

__all__ = ["alter_transaction", "describe_transaction"]

SUCCEEDED: Final = "SUCCEEDED"
_STATUSES: Final = ("queued", "running", "succeeded", "failed", "canceled")


def describe_transaction(
    access: TableAccess, request: DescribeTransactionRequest
) -> DescribeTransactionResponse:
    """Describe one transaction, named by its id or by the version it made.

    The request's id is the table's with that name at its end.
    """
    found = _find(access, request.id, "describe_transaction")
    return DescribeTransactionResponse(status=SUCCEEDED, properties=found.described())


def alter_transaction(
    access: TableAccess, request: AlterTransactionRequest
) -> AlterTransactionResponse:
    """Accept what changes nothing; refuse the rest (19), for the transaction is committed."""
    found = _find(access, request.id, "alter_transaction")
    properties = found.described()
    for action in request.actions:
        if _would_change(action, properties):
            raise InvalidTableStateError(
                f"alter_transaction: {found.uuid} is committed as version {found.version} and "
                "cannot change. To undo it, use restore_table with an earlier version"
            )
    return AlterTransactionResponse(status=SUCCEEDED, properties=properties)


@dataclass(frozen=True)
class _Committed:
    version: int
    uuid: str
    read_version: int
    operation: str
    properties: dict[str, str] = field(default_factory=dict)

    def described(self) -> dict[str, str]:
        return self.properties | {
            "uuid": self.uuid,
            "version": str(self.version),
            "read_version": str(self.read_version),
            "operation": self.operation,
        }


def _find(access: TableAccess, given: list[str] | None, operation: str) -> _Committed:
    if given is None or len(given) < 2:
        raise InvalidInputError(
            f"{operation}: 'id' is the table's id followed by a transaction id or a version"
        )
    *table_id, name = given
    dataset = access.open_table(table_id)
    with lance_errors(operation):
        versions = sorted((ref["version"] for ref in dataset.version_refs()), reverse=True)
        by_number = name.isascii() and name.isdigit()
        # Newest first: who asks has mostly just committed.
        for version in versions:
            if by_number and version != int(name):
                continue
            found = _read(dataset, version)
            if found is not None and (by_number or found.uuid == name):
                return found
    raise TransactionNotFoundError(
        f"{operation}: no transaction '{name}' among the versions that are kept"
    )


def _read(dataset: lance.LanceDataset, version: int) -> _Committed | None:
    try:
        transaction = dataset.read_transaction(version)
    except TypeError:
        # pylance 14.0.2 cannot build the Python form of a compaction that rewrote an index.
        return _from_manifest(dataset, version)
    if transaction is None:
        return None
    operation = transaction.operation
    name = type(operation).__name__
    if isinstance(operation, lance.LanceOperation.CreateIndex) and not operation.new_indices:
        name = "DropIndex"
    elif name == "BaseOperation":
        # One of those that have no Python form.
        name = "Other"
    return _Committed(
        version,
        transaction.uuid,
        transaction.read_version,
        name,
        dict(transaction.transaction_properties or {}),
    )


_FILE_FIELD: Final = 12
_FILE: Final = re.compile(rb"(\d+)-([0-9a-f-]{36})\.txn")


def _from_manifest(dataset: lance.LanceDataset, version: int) -> _Committed | None:
    manifest = dataset.checkout_version(version)._ds.serialized_manifest()
    match = _FILE.fullmatch(_text_field(manifest, _FILE_FIELD))
    if match is None:
        return None
    return _Committed(version, match[2].decode(), int(match[1]), "Rewrite")


def _text_field(message: bytes, wanted: int) -> bytes:
    """Return a length-delimited field of a protobuf message; empty when it is not there."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = number()
        kind = key & 7
        if kind == 0:
            number()
            continue
        size = number() if kind == 2 else {1: 8, 5: 4}[kind]
        if kind == 2 and key >> 3 == wanted:
            return message[at : at + size]
        at += size
    return b""


def _would_change(action: AlterTransactionAction, properties: dict[str, str]) -> bool:
    kinds = [name for name in type(action).model_fields if getattr(action, name) is not None]
    if len(kinds) != 1:
        raise InvalidInputError(
            f"alter_transaction: an action is exactly one of {', '.join(type(action).model_fields)}"
        )
    if action.set_status_action is not None:
        status = (action.set_status_action.status or "").lower()
        if status not in _STATUSES:
            raise InvalidInputError(
                f"alter_transaction: status '{action.set_status_action.status}' is not one of "
                f"{', '.join(_STATUSES)}"
            )
        return status != SUCCEEDED.lower()
    if action.set_property_action is not None:
        change = action.set_property_action
        mode = _mode(change.mode, "overwrite", "fail", "skip")
        present = properties.get(change.key or "")
        unchanged = mode == "skip" or (mode == "overwrite" and present == change.value)
        return present is None or not unchanged
    assert action.unset_property_action is not None
    removal = action.unset_property_action
    mode = _mode(removal.mode, "skip", "fail")
    return (removal.key or "") in properties or mode == "fail"


def _mode(given: str | None, *known: str) -> str:
    mode = (given or known[0]).lower()
    if mode not in known:
        raise InvalidInputError(
            f"alter_transaction: mode '{given}' is not one of {', '.join(known)}"
        )
    return mode
