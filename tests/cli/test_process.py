from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.cli.support import PROGRAM, Cli, at_terminal, process

from lance_catalog.cli import completion


def test_streams_and_exit_codes_of_a_real_process(cli: Cli) -> None:
    cli.create("t")
    root = ["--root", str(cli.root)]
    good = process(*root, "-o", "json", "table", "list")
    assert (good.code, good.err) == (0, ""), good
    assert good.json[0]["id"] == ["t"]
    bad = process(*root, "-o", "json", "table", "describe", "nope")
    assert (bad.code, bad.out) == (3, ""), bad
    assert bad.error["exit_code"] == 3


def test_a_reader_that_leaves_early_is_no_error(cli: Cli) -> None:
    cli.ok("namespace", "create", "n")
    command = f"'{PROGRAM}' --root '{cli.root}' -o plain namespace list | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_a_bar_on_a_terminal_leaves_stdout_alone(root: Path) -> None:
    Cli(root, "v1").create("a")
    ran = at_terminal("--root", str(root), "-o", "plain", "migrate", answer="")
    assert ran.code == 0
    assert ran.out == "registered\ta\t\n"
    assert "registered 1" in ran.err


@pytest.mark.skipif(
    shutil.which("setpriv") is None or os.getuid() != 0, reason="needs root and setpriv"
)
def test_a_root_without_rights_is_denied() -> None:
    root = tempfile.mkdtemp()  # mode 0700, the parents open to everybody
    drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    args = ["--root", root, "-o", "json", "table", "list"]
    for more, code in ([], 15), (["--profile", "x"], None):
        # The configuration of the test's user cannot be read either: only a profile needs it.
        done = subprocess.run(
            [*drop, PROGRAM, *args, *more],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        assert done.returncode == 5, done
        assert done.stdout == ""
        assert json.loads(done.stderr.splitlines()[-1])["error"]["code"] == code
    os.rmdir(root)


def test_the_command_line_itself_imports_no_lance() -> None:
    """What is slow to import waits for the command that needs it."""
    code = (
        "import sys, types; from importlib.machinery import PathFinder\n"
        "spec = PathFinder.find_spec('lance_catalog')\n"
        "package = types.ModuleType('lance_catalog')\n"
        "package.__path__ = list(spec.submodule_search_locations)\n"
        "sys.modules['lance_catalog'] = package\n"
        "import lance_catalog.cli.main\n"
        "slow = {'lance', 'lance_namespace', 'pyarrow', 'obstore', 'pydantic_settings', 'rich'}\n"
        "print(sorted(slow & set(sys.modules)))\n"
    )
    src = str(Path(completion.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": src},
    )
    assert done.stdout == "[]\n", done


def _complete(words: str, **env: str) -> list[str]:
    done = subprocess.run(
        [PROGRAM],
        capture_output=True,
        text=True,
        timeout=60,
        env={
            **os.environ,
            "_LANCE_CATALOG_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
            **env,
        },
    )
    assert done.returncode == 0, done
    assert done.stderr == ""
    return done.stdout.split()


def test_ids_are_completed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    # The limit is for a shell; on a busy machine the first import alone may take longer.
    cli.ok("namespace", "create", "prod.analytics", "--parents")
    cli.create("prod", "users")
    monkeypatch.setattr(completion, "_SECONDS", 30)

    class Given:
        def __init__(self) -> None:
            self.params = {"root": str(cli.root)}

        def find_root(self) -> Given:
            return self

    def complete(text: str) -> list[str]:
        return completion.complete_object(Given(), text)  # type: ignore[arg-type]

    assert complete("pr") == ["prod"]
    assert complete("prod.") == ["prod.analytics", "prod.users"]
    assert complete("prod.u") == ["prod.users"]
    assert completion.complete_namespace(Given(), "prod.") == ["prod.analytics"]  # type: ignore[arg-type]
    assert complete("nowhere.x") == []


def test_completion_never_fails(tmp_path: Path) -> None:
    assert _complete("lance-catalog tab") == ["table"]
    file = tmp_path / "file"
    file.write_text("x")
    assert _complete("lance-catalog table describe a", LANCE_CATALOG_ROOT=str(file)) == []
    assert _complete("lance-catalog table describe a", LANCE_CATALOG_PROFILE="nope") == []
