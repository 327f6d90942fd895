"""The commit gate: decides, version by version, whether a Lance commit lands.

Lance asks a namespace client with managed versioning to create each version of a table. This one
answers for a single commit on a single table: version N+1 of a table that was read at N, by
put-if-absent of the final manifest, or nothing. Plain Lance would rebase an append over anything
that came between; here nothing may come between (invariant 1).

No Lance import: Lance calls us, with dicts, on a thread of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from lance_catalog.errors import CommitOutcomeUnknownError, ConcurrentModificationError
from lance_catalog.storage.port import Store

__all__ = ["CommitGate", "Naming", "Outcome", "manifest_name", "parse_manifest_name"]

_MAX: Final = 2**64 - 1
_V2_NAME: Final = re.compile(r"^(\d{20})\.manifest$")
_V1_NAME: Final = re.compile(r"^(\d{1,19})\.manifest$")


class Naming(Enum):
    """How a table names its manifests; a table keeps the scheme it was made with (I37)."""

    V1 = "V1"
    V2 = "V2"


class Outcome(Enum):
    """What became of the commit."""

    NOT_TRIED = "not tried"
    REFUSED = "refused"
    LANDED = "landed"
    UNKNOWN = "unknown"


def manifest_name(version: int, naming: Naming) -> str:
    """Return the file name of a version's manifest."""
    return f"{_MAX - version:020d}.manifest" if naming is Naming.V2 else f"{version}.manifest"


def parse_manifest_name(name: str) -> tuple[int, Naming] | None:
    """Return (version, naming scheme) of a manifest's file name; None for anything else."""
    match = _V2_NAME.match(name)
    if match:
        return _MAX - int(match[1]), Naming.V2
    match = _V1_NAME.match(name)
    return (int(match[1]), Naming.V1) if match else None


@dataclass
class CommitGate:
    """Lets version ``read_version + 1`` of the table at ``directory`` land, once, or refuses.

    ``on_step`` is told "staged" and "finalized", for fail points.
    """

    store: Store
    directory: str
    read_version: int
    naming: Naming = Naming.V2
    on_step: Callable[[str], None] = lambda step: None
    outcome: Outcome = Outcome.NOT_TRIED
    error: BaseException | None = None
    landed_size: int = 0
    staged: list[str] = field(default_factory=list)

    def final_path(self, version: int) -> str:
        """Return where a version's manifest lies."""
        return f"{self.directory}/_versions/{manifest_name(version, self.naming)}"

    # What Lance calls.

    def namespace_id(self) -> str:
        return "lance-catalog commit gate"

    def create_table_version(self, request: Mapping[str, Any]) -> dict[str, Any]:
        version = int(request["version"])
        # Lance hands out a path of its own object store, percent-encoded or not; the folder is
        # known here, so only the name counts.
        staged = f"{self.directory}/_versions/{str(request['manifest_path']).rsplit('/', 1)[-1]}"
        self.staged.append(staged)
        self.naming = Naming(str(request.get("naming_scheme") or "V2"))
        if self.outcome is not Outcome.NOT_TRIED or version != self.read_version + 1:
            # Lance rebased before asking: something came between N and now.
            if self.outcome is Outcome.NOT_TRIED:
                self.outcome = Outcome.REFUSED
            raise ConcurrentModificationError(f"version {version} is not {self.read_version + 1}")
        self.on_step("staged")
        try:
            self._land(version, staged)
        except BaseException as error:
            self.error = error
            raise
        return self._answer(version)

    def _land(self, version: int, staged: str) -> None:
        self.outcome = Outcome.UNKNOWN
        final = self.final_path(version)
        if not self._read_version_present():
            self.outcome = Outcome.REFUSED
            raise ConcurrentModificationError(f"version {self.read_version} is gone")
        if not self.store.copy_if_absent(staged, final):
            self.outcome = Outcome.REFUSED
            raise ConcurrentModificationError(f"version {version} was taken by another writer")
        if not self._read_version_present():
            self._judge_without_predecessor(version, final)
        self.outcome = Outcome.LANDED
        self.on_step("finalized")

    def _judge_without_predecessor(self, version: int, final: str) -> None:
        """Decide about a version whose predecessor a clean-up removed while we put it.

        The newest version is the truth, ours included: then nothing is wrong. With newer ones
        and a gap after ours we wrote into the past, where no reader looks: ours to remove,
        because we just made it. Without a gap it cannot be told, and is not guessed.
        """
        listed = self.store.list_level(f"{self.directory}/_versions").objects
        found = [parse_manifest_name(info.path.rsplit("/", 1)[-1]) for info in listed if info.size]
        present = {parsed[0] for parsed in found if parsed is not None}
        if max(present, default=version) <= version:
            return
        if version + 1 not in present:
            self.store.delete([final])
            self.outcome = Outcome.REFUSED
            raise ConcurrentModificationError(f"version {self.read_version} vanished")
        raise CommitOutcomeUnknownError(
            f"version {self.read_version} of {self.directory} was cleaned up while version "
            f"{version} was written, and newer ones exist. Look whether the change is there "
            "before retrying; keep versions longer than a commit takes."
        )

    def _read_version_present(self) -> bool:
        if self.read_version == 0:
            return True
        info = self.store.head(self.final_path(self.read_version))
        # Retention leaves an empty file under the name of a removed version.
        return info is not None and info.size > 0

    def list_table_versions(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if self.read_version == 0:
            return {"versions": []}
        return {"versions": [self._version(self.read_version)]}

    def describe_table_version(self, request: Mapping[str, Any]) -> dict[str, Any]:
        # After a refusal Lance asks for the number it tried. Any manifest that is not its own
        # ends the matter at once; not-found makes it poll and sleep (design: the commit gate).
        version = int(request["version"])
        if self.outcome is Outcome.REFUSED and version > self.read_version:
            present = self.store.head(self.final_path(version))
            version = version if present is not None else self.read_version
        return self._answer(version)

    def _answer(self, version: int) -> dict[str, Any]:
        return {"version": self._version(version)}

    def _version(self, version: int) -> dict[str, Any]:
        path = self.final_path(version)
        info = self.store.head(path)
        return {
            "version": version,
            "manifest_path": path,
            "manifest_size": info.size if info is not None else 0,
        }

    def discard_staged(self) -> None:
        """Remove what Lance staged; after a landing the final holds the same bytes."""
        if self.staged:
            self.store.delete(self.staged)
            self.staged = []
