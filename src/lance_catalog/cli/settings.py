"""Effective settings: flag, then environment, then profile, then default; each with its origin."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from lance_catalog.cli.failures import CommandError, usage
from lance_catalog.cli.output import Format

__all__ = ["EffectiveSettings", "config_path", "mask", "resolve"]

ENV_PREFIX: Final = "LANCE_CATALOG_"
MASKED: Final = "********"
_FLAGS: Final = "the command line"
ModeName = Literal["v1", "v2", "compat"]

_MODES: Final[Mapping[str, tuple[str, str]]] = {
    "v1": ("false", "true"),
    "v2": ("true", "false"),
    "compat": ("true", "true"),
}
# Of the storage options only these are shown: an unknown one may be a secret under any name.
_HARMLESS: Final = re.compile(
    r"^(aws_|azure_|google_)?(default_)?(region|endpoint|endpoint_url|allow_http|timeout|"
    r"connect_timeout|bucket|bucket_name|account_name|storage_account_name|container_name|"
    r"virtual_hosted_style_request|skip_signature|use_emulator|s3_express|unsigned_payload|"
    r"client_max_retries|client_retry_timeout|allow_invalid_certificates)$"
)


class Layer(BaseModel):
    """What one source says: flags, the environment or a profile, all under the same names."""

    model_config = ConfigDict(extra="forbid")

    root: str | None = None
    profile: str | None = None
    output: Format | None = None
    delimiter: str | None = None
    mode: ModeName | None = None
    as_of: str | None = None
    storage: dict[str, str] = {}
    property: dict[str, str] = {}

    @field_validator("storage", "property", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        """TOML has numbers and booleans; options are strings."""
        if not isinstance(value, Mapping):
            return value
        return {
            key: str(v).lower()
            if isinstance(v, bool)
            else str(v)
            if isinstance(v, int | float)
            else v
            for key, v in value.items()
        }

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield every setting that is given, options and properties by their full names."""
        for name in ("root", "profile", "output", "delimiter"):
            if getattr(self, name) is not None:
                yield name, str(getattr(self, name))
        if self.mode is not None:
            # Spelled out here, so that a mode beats the properties of a source below it.
            manifest, listing = _MODES[self.mode]
            yield "property.manifest_enabled", manifest
            yield "property.dir_listing_enabled", listing
        if self.as_of is not None:
            yield "property.as_of", self.as_of
        yield from ((f"property.{key}", value) for key, value in self.property.items())
        yield from ((f"storage.{key}", value) for key, value in self.storage.items())


class _Environment(Layer, BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="_",
        env_nested_max_split=1,
        env_ignore_empty=True,
        extra="ignore",
    )


@dataclass(frozen=True)
class EffectiveSettings:
    """The outcome: values by name, and where each came from."""

    values: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def root(self) -> str | None:
        return self.values.get("root")

    @property
    def format(self) -> Format:
        return Format(self.values["output"])

    @property
    def delimiter(self) -> str:
        return self.values["delimiter"]

    @property
    def mode(self) -> str | None:
        """v1, v2 or compat; None when the properties make no sense (the library refuses them)."""
        pair = tuple(
            self.values.get(f"property.{name}", "true").lower().replace("0", "false")
            for name in ("manifest_enabled", "dir_listing_enabled")
        )
        known = {(a, b): name for name, (a, b) in _MODES.items()}
        return known.get((pair[0].replace("1", "true"), pair[1].replace("1", "true")))

    def properties(self) -> dict[str, str]:
        """Return what ``lance_catalog.connect`` takes beside the root."""
        found: dict[str, str] = {}
        for key, value in self.values.items():
            if key.startswith("storage."):
                found[key] = value
            elif key.startswith("property."):
                found[key.removeprefix("property.")] = value
        return found

    def secrets(self) -> list[str]:
        """Return the values that are never shown."""
        return [value for key, value in self.values.items() if mask(key, value) == MASKED]


def mask(key: str, value: str) -> str:
    """Return a value as it may be shown."""
    name = key.removeprefix("property.")
    if name.startswith("storage.") and not _HARMLESS.match(name.removeprefix("storage.").lower()):
        return MASKED
    if "://" in value and (name == "root" or name.startswith("storage.")):
        return _without_credentials(value)
    return value


def _without_credentials(uri: str) -> str:
    parts = urlsplit(uri)
    if "@" not in parts.netloc and not parts.query:
        return uri
    user, _, host = parts.netloc.rpartition("@")
    # abfss://container@account is an address; user:password@host is not.
    shown = f"{MASKED}@{host}" if ":" in user else parts.netloc
    query = f"?{MASKED}" if parts.query else ""
    return f"{parts.scheme}://{shown}{parts.path}{query}"


def config_path() -> Path:
    """Return where the profiles are kept."""
    given = os.environ.get(f"{ENV_PREFIX}CONFIG")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(base) / "lance-catalog" / "config.toml"


def resolve(flags: Mapping[str, Any]) -> EffectiveSettings:
    """Merge the sources; a failure with exit code 2 names the one that is wrong."""
    given = _read(lambda: Layer(**flags), _FLAGS)
    environment = _read(_Environment, "the environment")
    name = given.profile or environment.profile
    default, profile = _profile(name)
    values = {"output": Format.TABLE.value, "delimiter": "."}
    origins = dict.fromkeys(values, "default")
    if default is not None and name is None:
        values["profile"], origins["profile"] = default, str(config_path())
    layers = (
        (profile, f"profile {name or default}"),
        (environment, "environment"),
        (given, "flag"),
    )
    for layer, origin in layers:
        for key, value in layer.pairs():
            values[key], origins[key] = value, origin
    return EffectiveSettings(values, origins)


def _read(build: Any, where: str) -> Layer:
    try:
        layer: Layer = build()
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        # The value itself is not repeated: it may be a secret.
        raise usage(
            f"{where}: '{name}': {first['msg'].removesuffix('.')}", _nearest(first, where)
        ) from None
    except SettingsError as error:
        raise usage(f"{where}: {error}; give one variable for each option") from None
    return layer


def _nearest(error: Any, where: str) -> str | None:
    if where == _FLAGS:
        return "`lance-catalog --help` shows the global options"
    if error["type"] != "extra_forbidden":
        return None
    near = difflib.get_close_matches(str(error["loc"][0]), Layer.model_fields, n=1, cutoff=0.0)
    return f"did you mean '{near[0]}'? Known are {', '.join(Layer.model_fields)}"


def _profile(name: str | None) -> tuple[str | None, Layer]:
    """Return the default profile's name, if the file names one, and the profile to use."""
    path = config_path()
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except FileNotFoundError:
        if name is not None:
            raise usage(f"profile '{name}': there is no {path}", _sample(name)) from None
        return None, Layer()
    except (OSError, tomllib.TOMLDecodeError) as error:
        if isinstance(error, PermissionError) and name is None:
            # A service started with somebody else's HOME; nobody asked for that file.
            return None, Layer()
        raise _unreadable(path, error) from error
    unknown = sorted(set(content) - {"default_profile", "profiles"})
    profiles = content.get("profiles", {})
    default = content.get("default_profile")
    if unknown or not isinstance(profiles, dict) or not isinstance(default, str | None):
        raise usage(
            f"{path}: {f'unknown key {unknown[0]!r}' if unknown else 'not as expected'}",
            'the file holds default_profile = "NAME" and tables [profiles.NAME]',
        )
    chosen = name or default
    if chosen is None:
        return None, Layer()
    if not isinstance(profiles.get(chosen), dict):
        known = ", ".join(sorted(profiles)) or "none"
        raise usage(f"profile '{chosen}' is not in {path}; there are: {known}", _sample(chosen))
    return default, _read(lambda: Layer(**profiles[chosen]), f"profile '{chosen}' in {path}")


def _sample(name: str) -> str:
    return f'add to {config_path()}: [profiles.{name}] with root = "..."'


def _unreadable(path: Path, error: Exception) -> CommandError:
    if isinstance(error, PermissionError):
        return CommandError(f"{path} cannot be read: permission denied", exit_code=5, name="Denied")
    return usage(f"{path} cannot be read: {error}", "correct the file, or move it away")
