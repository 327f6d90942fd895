from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.support import Cli, run, settings

from lance_catalog import errors
from lance_catalog.cli.failures import explain
from lance_catalog.cli.session import Session

CODES = {
    errors.UnsupportedOperationError: 1,
    errors.NamespaceNotFoundError: 3,
    errors.NamespaceAlreadyExistsError: 4,
    errors.NamespaceNotEmptyError: 4,
    errors.TableNotFoundError: 3,
    errors.TableAlreadyExistsError: 4,
    errors.TableIndexNotFoundError: 3,
    errors.TableIndexAlreadyExistsError: 4,
    errors.TableTagNotFoundError: 3,
    errors.TableTagAlreadyExistsError: 4,
    errors.TransactionNotFoundError: 3,
    errors.TableVersionNotFoundError: 3,
    errors.TableColumnNotFoundError: 2,
    errors.InvalidInputError: 2,
    errors.ConcurrentModificationError: 4,
    errors.CommitOutcomeUnknownError: 4,
    errors.TableVersionAlreadyExistsError: 4,
    errors.PermissionDeniedError: 5,
    errors.UnauthenticatedError: 5,
    errors.ServiceUnavailableError: 1,
    errors.InternalError: 1,
    errors.InvalidTableStateError: 1,
    errors.TableSchemaValidationError: 1,
    errors.ThrottlingError: 1,
    errors.TableBranchNotFoundError: 3,
    errors.TableBranchAlreadyExistsError: 4,
}


def test_every_error_of_the_tree_has_an_exit_code() -> None:
    kinds = {getattr(errors, name) for name in errors.__all__ if name.endswith("Error")}
    assert kinds - {errors.LanceNamespaceError} == set(CODES)


@pytest.mark.parametrize(("kind", "code"), CODES.items(), ids=lambda v: getattr(v, "__name__", v))
def test_exit_codes_and_hints(kind: type[errors.LanceNamespaceError], code: int) -> None:
    session = Session()
    session.__dict__["settings"] = settings()
    session.subject = ("it's", "t")
    failure = explain(kind("what; `lance-catalog table list a` shows what does"), session)
    assert failure.exit_code == code
    assert failure.message == "what"
    assert failure.code == int(kind.code)
    assert failure.hint
    if kind is errors.TableNotFoundError:
        assert """table list 'it'"'"'s'""" in failure.hint


def test_json_errors_are_objects_on_stderr(cli: Cli) -> None:
    ran = cli.run("-o", "json", "table", "describe", "nope")
    assert ran.code == 3
    assert ran.out == ""
    assert ran.error["name"] == "TableNotFound"
    assert ran.error["code"] == 4
    assert ran.error["exit_code"] == 3
    assert "table list" in ran.error["hint"]
    mistyped = cli.run("table", "list", "--nope", "-o", "json")
    assert mistyped.error["exit_code"] == 2
    assert run("--output=json", "tabel").error["name"] == "Usage"
    assert run("-o", "json", "table", "list").error["name"] == "Usage"
    assert run("-o", "json", "--storage", "x", "table", "list").error["name"] == "Usage"


def test_an_error_is_one_line_and_a_hint(cli: Cli) -> None:
    for args in (["table", "describe", "nope"], ["table", "list", "--nope"], ["nope"]):
        lines = cli.run(*args).err.splitlines()
        lines = [line for line in lines if not line.startswith("note: ")]
        assert [line.split(":")[0] for line in lines] == ["error", "hint"], lines


def test_a_traceback_only_with_debug(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from lance_catalog import DirectoryNamespace

    def broken(self: object, request: object) -> None:
        raise ZeroDivisionError("unexpected")

    monkeypatch.setattr(DirectoryNamespace, "list_tables", broken)
    quiet = cli.run("table", "list")
    assert quiet.code == 1
    assert "Traceback" not in quiet.err
    assert "--debug" in quiet.err
    loud = cli.run("--debug", "table", "list")
    assert loud.code == 1
    assert "ZeroDivisionError" in loud.err
    assert "Traceback" in loud.err
    assert "Traceback" in cli.run("table", "describe", "nope", "--debug").err


def test_a_root_that_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    for args in (["table", "list"], ["namespace", "create", "a"], ["table", "declare", "t"]):
        ran = run("--root", str(file), *args)
        assert ran.code == 2, ran
        assert ran.err.startswith("error: ")
        assert file.read_text() == "x"
