"""What went through the proxy, and what is to go wrong there."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit

Kind = Literal["LIST", "GET", "HEAD", "PUT", "COPY", "DELETE", "POST"]
READS: frozenset[Kind] = frozenset({"LIST", "GET", "HEAD"})

# A GET with one of these in its query enumerates: S3 objects (both versions of the call), object
# versions, uploads and parts; Azure's blobs, containers and blocks have comp=list, blocklist.
_LIST_PARAMETERS = {"list-type", "prefix", "delimiter", "marker", "versions", "uploads", "uploadId"}


@dataclass(slots=True)
class Request:
    method: str
    kind: Kind
    path: str
    """Decoded, with the bucket (Azure: account and container), without the query."""
    query: str
    status: int | None = None
    """What the store answered, or the planted status; None until then."""
    faulty: bool = False

    @property
    def is_write(self) -> bool:
        """By what was asked for, not by what came of it: a refused put is still a write."""
        return self.kind not in READS


@dataclass(slots=True)
class Fault:
    left: int
    kind: Kind | None
    path: str
    forward: bool
    status: int

    def matches(self, request: Request) -> bool:
        fits = self.kind is None or self.kind == request.kind
        return self.left > 0 and fits and self.path in request.path


@dataclass(slots=True)
class Counts:
    methods: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    reads: int = 0
    writes: int = 0

    @property
    def total(self) -> int:
        return self.reads + self.writes


def classify(method: str, target: str, headers: Iterable[str]) -> Kind:
    """The kind of a request to S3 or Azure, from the names of its headers among others."""
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    azure = query.get("comp", [""])[0]
    match method:
        case "GET":
            # Without any query, S3's oldest list call: GET on the bucket itself.
            bucket_only = "/" not in parts.path.strip("/") and not query
            lists = _LIST_PARAMETERS & query.keys() or azure in ("list", "blocklist")
            return "LIST" if lists or bucket_only else "GET"
        case "HEAD":
            return "HEAD"
        case "PUT":
            names = {name.lower() for name in headers}
            return "COPY" if names & {"x-amz-copy-source", "x-ms-copy-source"} else "PUT"
        case "DELETE":
            return "DELETE"
        case "POST":
            # obstore deletes even one object with a bulk delete (S3) or a batch (Azure).
            return "DELETE" if "delete" in query or azure == "batch" else "POST"
        case _:
            # Unknown, so possibly a write: it must not slip past a test of "zero writes".
            return "POST"


class Traffic:
    """The log of one proxy, and its planted faults; safe for use by many threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._log: list[Request] = []
        self._faults: list[Fault] = []

    def arrived(
        self, method: str, target: str, headers: Iterable[str]
    ) -> tuple[Request, Fault | None]:
        """Log a request, before it is passed on, and say which fault it meets, if any."""
        parts = urlsplit(target)
        request = Request(
            method, classify(method, target, headers), unquote(parts.path), parts.query
        )
        with self._guard:
            self._log.append(request)
            for fault in self._faults:
                if fault.matches(request):
                    fault.left -= 1
                    request.faulty = True
                    return request, fault
        return request, None

    def answered(self, request: Request, status: int) -> None:
        with self._guard:
            request.status = status

    def plant(
        self, count: int, *, kind: Kind | None, path: str, forward: bool, status: int
    ) -> None:
        with self._guard:
            self._faults.append(Fault(count, kind, path, forward, status))

    def pending(self) -> int:
        """Faults planted and not yet met: a fault test that ends with some has tested less."""
        with self._guard:
            return sum(fault.left for fault in self._faults)

    def requests(self) -> list[Request]:
        with self._guard:
            return list(self._log)

    def counts(self) -> Counts:
        counts = Counts()
        for request in self.requests():
            counts.methods[request.method] += 1
            counts.kinds[request.kind] += 1
            if request.is_write:
                counts.writes += 1
            else:
                counts.reads += 1
        return counts

    def reset(self) -> None:
        """Forget the log and the faults."""
        with self._guard:
            self._log.clear()
            self._faults.clear()
