"""The commit gate: decides, version by version, whether a Lance commit lands.

Lance asks a namespace client with managed versioning to create each version of a table. This one
answers for a single commit on a single table: version N+1 of a table that was read at N, by
put-if-absent of the final manifest, or nothing. Plain Lance would rebase an append over anything
that came between; here nothing may come between (invariant 1).

No Lance import: Lance calls us, with dicts, on a thread of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lance_catalog.errors import ConcurrentModificationError, LanceNamespaceError
from lance_catalog.storage.landing import Landing, Outcome
from lance_catalog.storage.manifests import Naming, manifest_name

__all__ = ["CommitGate", "Outcome"]


@dataclass
class CommitGate(Landing):
    """Answers Lance for one commit: it lands as the very next version, or is refused."""

    staged: list[str] = field(default_factory=list)
    _lance_folder: str | None = None

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
            self.land(lambda final: self._put(staged, final))
        except BaseException as error:
            self.error = error
            raise
        return self._answer(version)

    def _put(self, staged: str, final: str) -> bool:
        try:
            return self.store.copy_if_absent(staged, final)
        except FileNotFoundError:
            raise
        except (OSError, LanceNamespaceError):
            self.body = self._keep(staged)
            raise

    def _keep(self, staged: str) -> bytes | None:
        """Return what was to land, while it is there: Lance removes it once we have failed."""
        try:
            return self.store.get(staged)
        except (OSError, LanceNamespaceError):
            return None

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
