"""Properties → frozen settings. Refuses (13) what it does not understand, with the nearest name.

The names of the native implementation are accepted (R16): honoured where they mean something
here, otherwise logged once as having no effect.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final

from lance_catalog.errors import InvalidInputError

__all__ = [
    "DEFAULT_RETENTION_MS",
    "DROP_BEHAVIORS",
    "PROPERTIES",
    "Mode",
    "Settings",
    "parse_bool",
    "parse_choice",
    "parse_duration_ms",
    "parse_recreate",
]

log = logging.getLogger(__name__)

STORAGE_PREFIX: Final = "storage."
DROP_BEHAVIORS: Final = ("trash", "purge")
#: How long old versions of the manifest stay whole: seven days.
DEFAULT_RETENTION_MS: Final = 7 * 24 * 3600 * 1000
#: The shortest time that commits may be told: a commit on its way must find what it builds on.
_LEAST_RETENTION_MS: Final = 60 * 1000
#: How long a dropped table can be brought back, and a V1 name stays closed after a contested purge.
DEFAULT_DROP_TTL_MS: Final = 7 * 24 * 3600 * 1000
DEFAULT_QUARANTINE_MS: Final = 5 * 60 * 1000
_UNITS_MS: Final = {"": 1000, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

#: Every property, with one line of meaning: the reference page and the error messages read it.
PROPERTIES: Final[Mapping[str, str]] = {
    "root": "where the catalog lies: a URI (file, s3, gs, az, memory) or a path; required",
    "manifest_enabled": "track objects in the __manifest table (V2); default true",
    "dir_listing_enabled": "find root tables by their directories (V1); default true",
    "commit_timeout": "seconds a change keeps trying against other writers; default 30",
    "commit_retries": "conflicts after which a change gives up; default: only the time counts",
    "read_consistency_interval": "seconds a read may rely on the last look; default 0: always look",
    "manifest_retention": "how long old versions of the manifest stay, as 7d, 12h or seconds; "
    "'never' removes none; default 7d",
    "as_of": "read the catalog as it was: a version of the manifest, or a time as "
    "2026-11-15T12:00:00+00:00; read only",
    "drop_ttl": "how long a dropped table can be brought back, as 7d, 12h or seconds; 'never' "
    "expires none; default 7d",
    "drop_behavior": "what drop_table does: 'trash' (can be undone) or 'purge' (deletes at once); "
    "default trash",
    "recreate": "create_table over a dropped name: 'revive' writes a new version of the dropped "
    "table, 'fresh' starts a new directory (not in V1); default revive",
    "v1_redeclare": "declare_table over a dropped name in V1: 'refuse', or 'purge' the dropped "
    "table first; default refuse",
    "purge_quarantine": "how long a V1 name stays closed on an object store after a purge that "
    "another process had begun, as 5m; default 5m",
    "vend_input_storage_options": "answer with the storage options given here; default false",
    "storage.*": "options of the object store, for Lance and for our own requests",
}
_NO_EFFECT: Final[Mapping[str, str]] = {
    "inline_optimization_enabled": "indices are kept up by every writer here",
    "table_version_tracking_enabled": "managed versions are switched on in the catalog itself",
    "dir_listing_to_manifest_migration_enabled": "compatibility mode always merges both here",
    "vend_input_storage_options_refresh_interval_millis": "options given here do not expire",
    "ops_metrics_enabled": "there are no per-operation metrics in the library",
}
_DURATION: Final = re.compile(r"^(\d{1,9}(?:\.\d{1,9})?)([smhd]?)$", re.ASCII)
_said: set[str] = set()


class Mode(Enum):
    """How tables are found."""

    V1 = "v1"
    V2 = "v2"
    COMPAT = "compat"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the properties of a directory namespace say."""

    root: str
    mode: Mode = Mode.COMPAT
    storage: Mapping[str, str] = field(default_factory=dict)
    commit_timeout: float = 30.0
    commit_retries: int | None = None
    read_consistency_interval: float = 0.0
    #: None keeps every version of the manifest for ever.
    retention_ms: int | None = DEFAULT_RETENTION_MS
    vend_storage_options: bool = False
    #: A version of the manifest, or a time: the catalog is read as it was then.
    as_of: str | None = None
    #: None: dropped tables never expire.
    drop_ttl_ms: int | None = DEFAULT_DROP_TTL_MS
    drop_purges: bool = False
    recreate_fresh: bool = False
    redeclare_purges: bool = False
    quarantine_ms: int = DEFAULT_QUARANTINE_MS

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> Settings:
        """Parse properties as ``lance_namespace.connect`` passes them: strings, or real values."""
        given = {key: value for key, value in properties.items() if value is not None}
        for key in given:
            _check_known(key)
        root = given.get("root")
        if not isinstance(root, str) or root == "":
            raise InvalidInputError(
                "property 'root' is required: a path or a URI, for example '/data/catalog' "
                "or 's3://bucket/prefix'"
            )
        manifest = parse_bool("manifest_enabled", given.get("manifest_enabled", True))
        listing = parse_bool("dir_listing_enabled", given.get("dir_listing_enabled", True))
        if not manifest and not listing:
            raise InvalidInputError(
                "manifest_enabled and dir_listing_enabled are both false, so no table could ever "
                "be found; enable one of them"
            )
        mode = Mode.COMPAT if manifest and listing else Mode.V2 if manifest else Mode.V1
        as_of = given.get("as_of")
        if as_of is not None and mode is Mode.V1:
            raise InvalidInputError(
                "'as_of' needs a manifest (manifest_enabled=true): directories have no past"
            )
        if as_of is not None:
            # Directories tell nothing of what was.
            mode = Mode.V2
        retries = given.get("commit_retries")
        return cls(
            root=root,
            mode=mode,
            as_of=None if as_of is None else _moment(as_of),
            storage={
                key.removeprefix(STORAGE_PREFIX): _text(key, value)
                for key, value in given.items()
                if key.startswith(STORAGE_PREFIX)
            },
            commit_timeout=_number("commit_timeout", given.get("commit_timeout", 30.0)),
            commit_retries=None if retries is None else _count("commit_retries", retries),
            read_consistency_interval=_number(
                "read_consistency_interval", given.get("read_consistency_interval", 0.0)
            ),
            retention_ms=_retention(given.get("manifest_retention")),
            vend_storage_options=parse_bool(
                "vend_input_storage_options", given.get("vend_input_storage_options", False)
            ),
            drop_ttl_ms=parse_duration_ms("drop_ttl", given.get("drop_ttl", "7d")),
            drop_purges=parse_choice("drop_behavior", given.get("drop_behavior"), DROP_BEHAVIORS)
            == "purge",
            recreate_fresh=parse_recreate(given.get("recreate"), mode) == "fresh",
            redeclare_purges=parse_choice(
                "v1_redeclare", given.get("v1_redeclare"), ("refuse", "purge")
            )
            == "purge",
            quarantine_ms=_quarantine(given.get("purge_quarantine", "5m")),
        )


def parse_bool(name: str, value: object) -> bool:
    """Return a boolean property; 13 for anything that is not plainly true or false."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in ("true", "1"):
        return True
    if text in ("false", "0"):
        return False
    raise InvalidInputError(f"property '{name}' is {value!r}; expected true or false")


def parse_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Return one of some words, the first when none is given; 13 for any other."""
    if value is None:
        return choices[0]
    text = str(value).strip().lower()
    if text not in choices:
        raise InvalidInputError(f"'{name}' is {value!r}; expected {' or '.join(choices)}")
    return text


def parse_recreate(value: object, mode: Mode) -> str:
    """Return what create_table over a dropped name does; 13 for what the mode cannot."""
    chosen = parse_choice("recreate", value, ("revive", "fresh"))
    if chosen == "fresh" and mode is Mode.V1:
        raise InvalidInputError(
            "'recreate' is 'fresh', but in V1 (manifest_enabled=false) a table's name is its "
            "directory, so there is no other to start in; leave it out, or purge the table first"
        )
    return chosen


def parse_duration_ms(name: str, value: object) -> int | None:
    """Return a time span in milliseconds, None for ``never``; 13 for anything else.

    A number of seconds, or a number and one of s, m, h, d.
    """
    text = str(value).strip().lower()
    if text == "never":
        return None
    match = None if isinstance(value, bool) else _DURATION.match(text)
    if match is None:
        raise InvalidInputError(
            f"'{name}' is {value!r}; expected a time span as 7d, 12h, 30m or a number of "
            "seconds, or 'never'"
        )
    return int(float(match[1]) * _UNITS_MS[match[2]])


def _retention(value: object) -> int | None:
    if value is None:
        return DEFAULT_RETENTION_MS
    found = parse_duration_ms("manifest_retention", value)
    if found is not None and found < _LEAST_RETENTION_MS:
        # Not even 0: some mean "off" by it, others "at once".
        raise InvalidInputError(
            f"property 'manifest_retention' is {value!r}; the shortest time is 60 seconds, and "
            "'never' keeps every version. `lance-catalog upkeep --keep 0` removes them now."
        )
    return found


def _quarantine(value: object) -> int:
    found = parse_duration_ms("purge_quarantine", value)
    if found is None:
        raise InvalidInputError(
            "property 'purge_quarantine' is 'never': a name would stay closed for ever; give a "
            "time span as 5m"
        )
    return found


def _moment(value: object) -> str:
    if isinstance(value, bool):
        raise InvalidInputError(f"property 'as_of' is {value!r}; expected a version or a time")
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    try:
        if not text.isdecimal():
            datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(
            f"'as_of' is {value!r}; expected a version of the manifest, or a time as "
            "2026-11-15T12:00:00+00:00"
        ) from error
    return text


def _check_known(key: str) -> None:
    if key in PROPERTIES and key != "storage.*":
        return
    if key.startswith(STORAGE_PREFIX) and key not in (STORAGE_PREFIX, "storage.*"):
        return
    if key in _NO_EFFECT:
        if key not in _said:
            _said.add(key)
            log.warning("property '%s' has no effect here: %s", key, _NO_EFFECT[key])
        return
    names = [name for name in (*PROPERTIES, *_NO_EFFECT) if name != "storage.*"]
    near = difflib.get_close_matches(key, [*names, "storage."], n=1, cutoff=0.0)
    raise InvalidInputError(f"unknown property '{key}'; did you mean '{near[0]}'?")


def _number(name: str, value: object) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e9:
        raise InvalidInputError(f"property '{name}' is {value!r}; expected a number of 0 or more")
    return number


def _count(name: str, value: object) -> int:
    number = _number(name, value)
    if number != int(number):
        raise InvalidInputError(f"property '{name}' is {value!r}; expected a whole number")
    return int(number)


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise InvalidInputError(f"property '{name}' is a {type(value).__name__}; expected a string")
