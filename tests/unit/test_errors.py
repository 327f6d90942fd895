"""The exception tree: the library's classes and codes, and what failures below become."""

from __future__ import annotations

import errno
import re

import lance_namespace
import pytest
from lance_namespace.errors import ErrorCode

from lance_catalog import errors
from lance_catalog.errors import LanceNamespaceError, storage_errors, translate


def test_ours_are_the_library_s() -> None:
    """R11: `except lance_namespace.TableNotFoundError` works."""
    assert errors.TableNotFoundError is lance_namespace.TableNotFoundError
    assert errors.InvalidInputError is lance_namespace.InvalidInputError
    for name in errors.__all__:
        kind = getattr(errors, name)
        if isinstance(kind, type) and kind is not ErrorCode:
            assert issubclass(kind, lance_namespace.LanceNamespaceError), name


def test_the_docstring_draws_every_class_with_its_code() -> None:
    """The tree in the docstring is the tree."""
    drawn = dict(re.findall(r"(\w+Error) +(\d+)", errors.__doc__ or ""))
    for name, number in drawn.items():
        assert int(getattr(errors, name)("x").code) == int(number), name
    kinds = {
        name
        for name in errors.__all__
        if isinstance(getattr(errors, name), type)
        and issubclass(getattr(errors, name), LanceNamespaceError)
    }
    assert kinds - {"LanceNamespaceError"} == set(drawn)


def test_version_exists_is_12_and_a_conflict() -> None:
    """R1: the number of the text, caught as the library's conflict."""
    error = errors.TableVersionAlreadyExistsError("x")
    assert int(error.code) == 12
    assert isinstance(error, lance_namespace.ConcurrentModificationError)
    assert int(errors.CommitOutcomeUnknownError("x").code) == 14


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PermissionError(errno.EACCES, "no"), 15),
        (OSError(errno.EPERM, "no"), 15),
        (OSError(errno.EROFS, "Read-only file system"), 15),
        (OSError("LanceError(IO): ... Permission denied (os error 13)"), 15),
        (RuntimeError("Client error with status 403 Forbidden: AccessDenied"), 15),
        (OSError("SignatureDoesNotMatch"), 16),
        (OSError("status 401 Unauthorized"), 16),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory"), 13),
        (OSError("IO error: Not a directory (os error 20)"), 13),
        (OSError(errno.ENOSPC, "No space left on device"), 17),
        (TimeoutError("x"), 17),
        (OSError("error sending request for url"), 17),
        (OSError("503 Slow Down"), 17),
        (OSError(errno.EIO, "the disk is on fire"), 18),
        (RuntimeError("who knows"), 18),
        (ValueError("who knows"), 18),
    ],
)
def test_translate(error: Exception, code: int) -> None:
    """R12: refused permissions are 15, never 18; what nobody expected is 18."""
    found = translate(error, "doing x")
    assert int(found.code) == code
    assert "doing x" in str(found)


def test_translate_leaves_ours_alone() -> None:
    """R12: an error with a code keeps it."""
    ours = errors.TableNotFoundError("x")
    assert translate(ours, "y") is ours


def test_messages_carry_no_build_paths() -> None:
    """R12: one line, without where Rust was built, and not endless."""
    text = "boom, /home/runner/work/lance/rust/x.rs:1:2\nmore"
    assert "/home/runner" not in str(translate(OSError(text), "x"))
    assert len(str(translate(OSError("y" * 5000), "x"))) < 500


def test_the_cause_is_chained() -> None:
    """R12: whoever debugs finds the original."""
    with pytest.raises(LanceNamespaceError) as caught, storage_errors("x"):
        raise OSError("below")
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(KeyError), storage_errors("x"):
        raise KeyError("a bug, not storage")


@pytest.mark.parametrize(
    "said",
    [
        "403: <Error><Code>InvalidAccessKeyId</Code><AWSAccessKeyId>AKIAHUNTER2</AWSAccessKeyId>",
        "403: <Code>SignatureDoesNotMatch</Code><StringToSign>GET\nHUNTER2</StringToSign>",
        "error sending request for url (https://a.blob.core.windows.net/c?sv=1&sig=HUNTER2%3D)",
        "refused: https://b.s3/x?X-Amz-Credential=HUNTER2&X-Amz-Signature=HUNTER2",
    ],
)
def test_what_a_store_says_of_credentials_is_not_repeated(said: str) -> None:
    told = str(errors.translate(OSError(said), "reading"))
    assert "HUNTER2" not in told and "********" in told
