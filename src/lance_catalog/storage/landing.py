"""Landing a version: put-if-absent of its manifest, and the looks that make it strict.

Version N+1 of a table that was read at N lands by put-if-absent, or not at all; and it counts
only if it is the newest one afterwards, N still there: a writer that slept across a clean-up
would write into the past, where no reader looks (invariants 1 and 3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from lance_catalog.errors import (
    CommitOutcomeUnknownError,
    ConcurrentModificationError,
    LanceNamespaceError,
    PermissionDeniedError,
)
from lance_catalog.storage.manifests import Naming, hinted_version, manifest_name, newest_versions
from lance_catalog.storage.port import Store

__all__ = ["Landing", "Outcome"]


class Outcome(Enum):
    """What became of the commit."""

    NOT_TRIED = "not tried"
    REFUSED = "refused"
    LANDED = "landed"
    UNKNOWN = "unknown"


@dataclass
class Landing:
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
    #: What the store says of the version that landed, where a look told.
    e_tag: str | None = None

    def final_path(self, version: int) -> str:
        """Return where a version's manifest lies."""
        return f"{self.directory}/_versions/{manifest_name(version, self.naming)}"

    def land(self, put: Callable[[str], bool], *, looked: bool = False) -> None:
        """Put the manifest with ``put``, which says whether it was first; raises when refused.

        ``looked``: the caller saw just now that ``read_version`` is the newest.
        """
        version = self.read_version + 1
        final = self.final_path(version)
        if not looked and not self._is_newest(self.read_version):
            self.outcome = Outcome.REFUSED
            raise ConcurrentModificationError(f"version {self.read_version} is not the newest")
        # From here on a failure may have landed; a look that failed before has not.
        self.outcome = Outcome.UNKNOWN
        try:
            landed = put(final)
        except (PermissionError, PermissionDeniedError):
            # An answer, and a clear one: nothing was put.
            self.outcome = Outcome.NOT_TRIED
            raise
        except FileNotFoundError as error:
            # Nothing was put: what was staged, or the folder itself, is gone.
            self.outcome = Outcome.REFUSED
            raise ConcurrentModificationError(f"version {version} lost what was staged") from error
        if not landed:
            self.outcome = Outcome.REFUSED
            raise ConcurrentModificationError(f"version {version} was taken by another writer")
        if not self._settled(version):
            self._judge(version, final)
        self.outcome = Outcome.LANDED
        self.on_step("finalized")

    def _settled(self, version: int) -> bool:
        """Whether a version just put is the newest, and its predecessor still there."""
        if self.store.remote and self.naming is Naming.V2:
            found = newest_versions(self.store, self.directory)
            self.e_tag = found[version][1] if version in found else None
            return max(found, default=0) == version and self.read_version in (0, *found)
        return self._is_newest(version) and self._present(self.read_version)

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

    def resolve(self, error: BaseException) -> bool:
        """Find out whether a put whose reply was lost landed: the bytes at the name tell."""
        version = self.read_version + 1
        final = self.final_path(version)
        for _ in range(5):
            if self.body is None:
                break  # An empty place alone tells nothing: the put may still be on its way.
            try:
                there = self.store.get(final)
                if there is None:
                    # Put again, the same bytes: whichever of the two lands, it is ours.
                    landed = self.store.put_if_absent(final, self.body)
                else:
                    landed = there == self.body
                if landed and not self._settled(version):
                    self._judge(version, final)
            except CommitOutcomeUnknownError:
                raise
            except (OSError, LanceNamespaceError):
                if self.outcome is Outcome.REFUSED:
                    return False
                continue
            self.outcome = Outcome.LANDED if landed else Outcome.REFUSED
            return landed
        raise CommitOutcomeUnknownError(
            f"writing version {version} of {self.directory} failed ({error}) and the store does "
            "not answer, so it may or may not have landed. Look before retrying."
        ) from error

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
        if info is not None and version > self.read_version:
            self.e_tag = info.e_tag
        # Retention leaves an empty file under the name of a removed version.
        return info is not None and info.size > 0
