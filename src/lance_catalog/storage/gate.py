"""The commit gate: decides, version by version, whether a Lance commit lands.

Lance asks a namespace client with managed versioning to create each version of a table. This one
answers for a single commit on a single table: version N+1 of a table that was read at N, by
put-if-absent of the final manifest, or nothing. Plain Lance would rebase an append over anything
that came between; here nothing may come between (invariant 1).

No Lance import: Lance calls us, with dicts, on a thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    LanceNamespaceError,
)
from lance_catalog.storage.manifests import Naming, hinted_version, manifest_name, newest_versions
from lance_catalog.storage.port import Store

__all__ = ["CommitGate", "Outcome"]


class Outcome(Enum):
    """What became of the commit."""

    NOT_TRIED = "not tried"
    REFUSED = "refused"
    LANDED = "landed"
    UNKNOWN = "unknown"


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
    #: The manifest whose put failed, so that the outcome can be found out by its bytes.
    body: bytes | None = None
    landed_size: int = 0
    staged: list[str] = field(default_factory=list)
    _lance_folder: str | None = None

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
        self._lance_folder, _, name = str(request["manifest_path"]).rpartition("/")
        staged = f"{self.directory}/_versions/{name}"
        self.staged.append(staged)
        self.naming = Naming(str(request.get("naming_scheme") or "V2"))
        if self.outcome is not Outcome.NOT_TRIED or version != self.read_version + 1:
            # Lance rebased before asking: something came between N and now.
            if self.outcome is Outcome.NOT_TRIED:
                self.outcome = Outcome.REFUSED
            raise ConcurrentModificationError(f"version {version} is not {self.read_version + 1}")
        try:
            self.on_step("staged")
            self._land(version, staged)
        except BaseException as error:
            self.error = error
            raise
        return self._answer(version)

    def _land(self, version: int, staged: str) -> None:
        final = self.final_path(version)
        if not self._is_newest(self.read_version):
            self.outcome = Outcome.REFUSED
            raise ConcurrentModificationError(f"version {self.read_version} is not the newest")
        # From here on a failure may have landed; a look that failed before has not.
        self.outcome = Outcome.UNKNOWN
        try:
            landed = self.store.copy_if_absent(staged, final)
        except FileNotFoundError as error:
            # Nothing was put: what was staged, or the folder itself, is gone.
            self.outcome = Outcome.REFUSED
            raise ConcurrentModificationError(f"version {version} lost what was staged") from error
        except (OSError, LanceNamespaceError):
            self.body = self._keep(staged)
            raise
        if not landed:
            self.outcome = Outcome.REFUSED
            raise ConcurrentModificationError(f"version {version} was taken by another writer")
        if not self._is_newest(version) or not self._present(self.read_version):
            self._judge(version, final)
        self.outcome = Outcome.LANDED
        self.on_step("finalized")

    def _keep(self, staged: str) -> bytes | None:
        """Return what was to land, while it is there: Lance removes it once we have failed."""
        try:
            return self.store.get(staged)
        except (OSError, LanceNamespaceError):
            return None

    def _judge(self, version: int, final: str) -> None:
        """Decide about a version of ours when a clean-up or newer versions came by.

        The newest version is the truth, ours included: then nothing is wrong. With newer ones
        and a gap after ours we wrote into the past, where no reader looks: ours to remove,
        because we just made it. Newer ones without a gap build on ours if its predecessor is
        still there; else it cannot be told, and is not guessed.
        """
        present = set(newest_versions(self.store, self.directory, everything=True))
        if max(present, default=version) <= version:
            return
        if version + 1 not in present:
            self.store.delete([final])
            self.outcome = Outcome.REFUSED
            raise ConcurrentModificationError(f"version {version} lies in the past")
        if self.read_version in present or self.read_version == 0:
            return
        raise CommitOutcomeUnknownError(
            f"version {self.read_version} of {self.directory} was cleaned up while version "
            f"{version} was written, and newer ones exist. Look whether the change is there "
            "before retrying; keep versions longer than a commit takes."
        )

    def _is_newest(self, version: int) -> bool:
        """Whether no version above this one is known, at the least cost.

        On an object store one listing, newest first; on a disk the hint that every writer
        leaves, because a listing there grows with the versions kept. A hint that is ahead only
        makes us list.
        """
        if not (self.store.remote and self.naming is Naming.V2):
            if not self._present(version):
                return False
            if hinted_version(self.store, self.directory) <= version:
                return True
        return max(newest_versions(self.store, self.directory), default=0) == version

    def _present(self, version: int) -> bool:
        if version == 0:
            return True
        info = self.store.head(self.final_path(version))
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
        if self.outcome is not Outcome.LANDED and version > self.read_version:
            present = self.store.head(self.final_path(version))
            version = version if present is not None else self.read_version
        return self._answer(version)

    def _answer(self, version: int) -> dict[str, Any]:
        return {"version": self._version(version)}

    def _version(self, version: int) -> dict[str, Any]:
        path = self.final_path(version)
        info = self.store.head(path)
        if self._lance_folder is not None:
            # As Lance names it: a path it cannot read counts as not there yet, and is polled for
            # (a refusal took 150 ms, 2 ms with the path it can read).
            path = f"{self._lance_folder}/{manifest_name(version, self.naming)}"
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
