"""Object stores through obstore: S3, GCS, Azure. The only file that imports it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar
from urllib.parse import quote

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
from obstore.store import from_url

from lance_catalog import errors
from lance_catalog.storage.port import (
    Content,
    Level,
    ObjectInfo,
    Progress,
    Store,
    check_path,
)

__all__ = ["CloudStore"]

T = TypeVar("T")

# Lance takes these among its storage options, obstore wants them apart.
_CLIENT_OPTIONS: Final = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_url",
        "timeout",
        "user_agent",
    }
)
_BATCH: Final = 1000
#: How many folders are looked into at a time.
_PARALLEL: Final = 16


class CloudStore(Store):
    """A prefix of a bucket or container."""

    remote = True

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        self.uri = uri.rstrip("/")
        self.lance_options = dict(options)
        config, client = _split_options(self.uri, options)
        # obstore's overloads tie each config type to a URL literal; ours are known at run time.
        build: Callable[..., Any] = from_url
        try:
            self._store = build(self.uri, config=config, client_options=client)
        except (BaseError, ValueError) as error:
            # Not chained: obstore repeats values of options, which may be secrets.
            raise _unusable(self.uri, options, str(error)) from None

    def uri_of(self, path: str) -> str:
        return f"{self.uri}/{quote(check_path(path), safe='/$')}"

    def list_level(self, prefix: str = "") -> Level:
        if _impossible(prefix):
            return Level()
        found = _guard(
            f"listing {prefix or 'the root'}",
            lambda: obstore.list_with_delimiter(self._store, prefix or None),
        )
        names = [str(path).rstrip("/").rsplit("/", 1)[-1] for path in found["common_prefixes"]]
        return Level(names, [_info(meta) for meta in found["objects"]])

    def sample(self, limit: int) -> list[str]:
        stream = obstore.list(self._store, chunk_size=limit)
        chunk = _guard("listing the root", lambda: next(stream, None))
        return [] if chunk is None else [str(meta["path"]) for meta in chunk]

    def look_into(
        self, folders: Sequence[str], mark: str, likely: Sequence[str] = ()
    ) -> list[Content]:
        # One listing answers both questions; a look at a likely object answers neither for sure.
        if len(folders) < 2:
            return super().look_into(folders, mark, likely)
        with ThreadPoolExecutor(_PARALLEL) as pool:
            return list(pool.map(lambda folder: self._content(folder, mark), folders))

    def list_first(self, prefix: str) -> list[ObjectInfo]:
        if _impossible(check_path(prefix)):
            return []
        # Object stores list in the order of keys; the first chunk is the first page.
        stream = obstore.list(self._store, check_path(prefix), chunk_size=_BATCH)
        chunk = _guard(f"listing {prefix}", lambda: next(stream, None))
        return [] if chunk is None else [_info(meta) for meta in chunk]

    def list_tree(self, prefix: str) -> Iterator[ObjectInfo]:
        if _impossible(check_path(prefix)):
            return
        stream = obstore.list(self._store, check_path(prefix), chunk_size=_BATCH)
        while True:
            chunk = _guard(f"listing {prefix}", lambda: next(stream, None))
            if chunk is None:
                return
            for meta in chunk:
                yield _info(meta)

    def get(self, path: str) -> bytes | None:
        if _impossible(check_path(path)):
            return None

        def read() -> bytes | None:
            try:
                return obstore.get(self._store, check_path(path)).bytes().to_bytes()
            except FileNotFoundError:
                return None

        return _guard(f"reading {path}", read)

    def head(self, path: str) -> ObjectInfo | None:
        if _impossible(check_path(path)):
            return None

        def look() -> ObjectInfo | None:
            try:
                return _info(obstore.head(self._store, check_path(path)))
            except FileNotFoundError:
                return None

        return _guard(f"looking at {path}", look)

    def put(self, path: str, data: bytes) -> None:
        _guard(f"writing {path}", lambda: obstore.put(self._store, check_path(path), data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        def write() -> bool:
            try:
                obstore.put(self._store, check_path(path), data, mode="create")
            except (AlreadyExistsError, PreconditionError):
                # obstore retries a request whose reply was lost; the retry then finds our own
                # object. The bytes tell: racing callers write unique ones.
                return self.get(path) == data
            return True

        return _guard(f"writing {path}", write)

    def copy(self, source: str, target: str) -> None:
        _guard(
            f"copying {source}",
            lambda: obstore.copy(self._store, check_path(source), check_path(target)),
        )

    def copy_if_absent(self, source: str, target: str) -> bool:
        # S3 has no conditional copy; what we copy this way is a manifest, small.
        data = self.get(source)
        if data is None:
            raise FileNotFoundError(f"no such object: {source}")
        return self.put_if_absent(target, data)

    def delete(self, paths: Iterable[str]) -> None:
        batch = [check_path(path) for path in paths]
        for start in range(0, len(batch), _BATCH):
            part = batch[start : start + _BATCH]
            _guard(f"deleting {len(part)} objects", lambda part=part: self._delete(part))  # type: ignore[misc]

    def _delete(self, paths: list[str]) -> None:
        try:
            obstore.delete(self._store, paths)
        except FileNotFoundError:
            # Azure answers a missing blob so, and stops there: go on one by one.
            for path in paths:
                try:
                    obstore.delete(self._store, path)
                except FileNotFoundError:
                    continue

    def delete_tree(
        self, prefix: str, progress: Progress | None = None, *, keep: bool = False
    ) -> int:
        count = size = 0
        batch: list[str] = []
        for info in [*self.list_tree(prefix), None]:
            if info is not None:
                batch.append(info.path)
                size += info.size
            if batch and (info is None or len(batch) == _BATCH):
                self.delete(batch)
                count += len(batch)
                batch = []
                if progress is not None:
                    progress(count, size)
        return count

    def prune(self, path: str) -> None:
        check_path(path)

    def probe_put_if_absent(self) -> str | None:
        path = f"__claims/probe-{uuid.uuid4().hex}"
        try:
            # Different bytes, so that the second answer cannot be taken for a lost reply.
            if not self.put_if_absent(path, b"1"):
                return "the store refused to create a new object"
            return "the store overwrote an object" if self.put_if_absent(path, b"2") else None
        except errors.UnsupportedOperationError as error:
            return str(error)
        finally:
            self.delete([path])


def _impossible(path: str) -> bool:
    """Whether obstore takes no such path at all: then no object of ours has it."""
    return any(char < " " or char == "\x7f" for char in path)


def _info(meta: Mapping[str, Any]) -> ObjectInfo:
    return ObjectInfo(
        str(meta["path"]),
        int(meta["size"]),
        int(meta["last_modified"].timestamp() * 1000),
        _quoted(meta.get("e_tag")),
    )


def _quoted(e_tag: str | None) -> str | None:
    """Return a tag in one form: Azure has it without quotes in a listing, with them otherwise."""
    return e_tag if e_tag is None or e_tag.endswith('"') else f'"{e_tag}"'


def _guard(what: str, call: Callable[[], T]) -> T:
    """Run a call, with obstore's errors turned into ours."""
    try:
        return call()
    except PermissionDeniedError as error:
        raise errors.PermissionDeniedError(
            f"{what}: the store denies it. Check the rights of these credentials."
        ) from error
    except UnauthenticatedError as error:
        raise errors.UnauthenticatedError(
            f"{what}: the store refused the credentials. Check the storage.* properties."
        ) from error
    except NotSupportedError as error:
        raise errors.UnsupportedOperationError(f"{what}: the store cannot do it") from error
    except FileNotFoundError:
        raise
    except (BaseError, OSError) as error:
        raise errors.translate(error, what) from error


def _unusable(uri: str, options: Mapping[str, str], text: str) -> errors.InvalidInputError:
    """Return the error for a root and options of which obstore makes no store."""
    if "Account must be specified" in text:
        return errors.InvalidInputError(
            f"root '{uri}' names a container but no Azure storage account; give "
            "storage.azure_storage_account_name, set AZURE_STORAGE_ACCOUNT_NAME in the "
            "environment, or name it in the root: abfss://container@account.dfs.core.windows.net/x"
        )
    for key, value in options.items():
        if len(value) > 3:
            text = text.replace(value, f"<storage.{key}>")
    # obstore's first words name a store, and not always the right one.
    why = re.sub(r"^Generic \w+ error: ", "", text.split("\n", 1)[0])
    return errors.InvalidInputError(
        f"root '{uri}' cannot be used: {why}. Check the root and the storage.* options."
    )


def _split_options(uri: str, options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return (config, client options) as obstore wants them; Lance ignores what it does not know.

    obstore refuses unknown names, so each is tried alone: building a store does no I/O.
    """
    build: Callable[..., Any] = from_url
    config: dict[str, str] = {}
    client: dict[str, Any] = {}
    for key, value in options.items():
        name = key.lower().removeprefix("aws_").removeprefix("azure_").removeprefix("google_")
        if name in _CLIENT_OPTIONS:
            client[name] = value.lower() == "true" if value.lower() in ("true", "false") else value
            continue
        try:
            build(uri, config={key.lower(): value})
        except UnknownConfigurationKeyError:
            continue
        except (BaseError, ValueError):
            pass  # The name is known; the value alone is not enough, or wrong: said when used.
        config[key.lower()] = value
    return config, client
