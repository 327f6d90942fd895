from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.support import Cli, run, settings

from lance_catalog.cli.settings import mask


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    path = tmp_path / "config" / "lance-catalog" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(
        'default_profile = "dev"\n'
        "[profiles.dev]\n"
        f'root = "{tmp_path / "dev"}"\n'
        "[profiles.prod]\n"
        'root = "s3://bucket/prod"\n'
        'output = "plain"\n'
        "property = { commit_timeout = 5, manifest_enabled = false, "
        "read_consistency_interval = 0.5 }\n"
        'storage = { region = "eu", secret_access_key = "hunter2hunter2", allow_http = true }\n'
    )
    return path


def shown(*args: str) -> dict[str, tuple[str, str]]:
    ran = run("-o", "json", "config", "show", *args)
    assert ran.code == 0, ran
    return {row["name"]: (row["value"], row["origin"]) for row in ran.json}


def test_flag_beats_environment_beats_profile(
    profiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown()["root"] == (str(tmp_path / "dev"), "profile dev")
    assert shown("--profile", "prod")["root"] == ("s3://bucket/prod", "profile prod")
    monkeypatch.setenv("LANCE_CATALOG_PROFILE", "prod")
    monkeypatch.setenv("LANCE_CATALOG_STORAGE_REGION", "us")
    monkeypatch.setenv("LANCE_CATALOG_STORAGE_ACCESS_KEY_ID", "AKIAAKIA")
    found = shown()
    assert found["root"] == ("s3://bucket/prod", "profile prod")
    assert found["storage.region"] == ("us", "environment")
    assert found["storage.access_key_id"] == ("********", "environment")
    assert found["storage.secret_access_key"] == ("********", "profile prod")
    assert found["storage.allow_http"] == ("true", "profile prod")
    assert found["property.commit_timeout"] == ("5", "profile prod")
    assert found["property.read_consistency_interval"] == ("0.5", "profile prod")
    monkeypatch.setenv("LANCE_CATALOG_ROOT", "/from/env")
    assert shown()["root"] == ("/from/env", "environment")
    assert shown("--root", "/from/flag", "--storage", "region=cn")["root"] == (
        "/from/flag",
        "flag",
    )
    assert shown("--storage", "region=cn")["storage.region"] == ("cn", "flag")


def test_a_mode_beats_the_properties_below_it(profiles: Path) -> None:
    ran = run("--mode", "v2", "-o", "json", "--profile", "prod", "config", "show")
    found = {row["name"]: row["value"] for row in ran.json}
    assert found["property.manifest_enabled"] == "true"
    assert found["property.dir_listing_enabled"] == "false"


def test_output_from_the_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCE_CATALOG_OUTPUT", "json")
    monkeypatch.setenv("LANCE_CATALOG_ROOT", str(cli.root))
    monkeypatch.setenv("LANCE_CATALOG_DELIMITER", "/")
    monkeypatch.setenv("LANCE_CATALOG_MODE", "v2")
    assert run("table", "declare", "a.b").json["id"] == ["a.b"]
    assert run("table", "list").json[0]["text"] == "a.b"
    assert run("table", "list", "-o", "plain").out == "a.b\n"


def test_options_reach_the_catalog(root: Path) -> None:
    ran = run(
        "--root", str(root), "--property", "manifest_enabled=false", "namespace", "create", "a"
    )
    assert ran.code == 1
    assert "V1" in ran.err
    unknown = run("--root", str(root), "--property", "manifest_enabeld=false", "table", "list")
    assert unknown.code == 2
    assert "manifest_enabled" in unknown.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["table", "list"], "LANCE_CATALOG_ROOT"),
        (["--profile", "nope", "table", "list"], "profile 'nope'"),
        (["--storage", "secretvalue", "table", "list"], "NAME=VALUE"),
        (["--storage", "a=1", "--storage", "a=2", "table", "list"], "twice"),
        (["--mode", "v3", "table", "list"], "'v1', 'v2' or 'compat'"),
        (["--delimiter", "", "--root", "/nowhere", "table", "list"], "delimiter"),
        (["--root", "ftp://x/y", "table", "list"], "scheme 'ftp'"),
        (["--output", "yaml", "table", "list"], "yaml"),
    ],
)
def test_wrong_settings_are_usage(args: list[str], words: str) -> None:
    ran = run(*args)
    assert ran.code == 2, ran
    assert words in ran.err
    assert ran.out == ""
    assert "secretvalue" not in ran.err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[profiles.dev\n", "cannot be read"),
        ("[profile.dev]\n", "unknown key 'profile'"),
        ("[profiles.dev]\nrot = '/x'\n", "did you mean 'root'"),
        ("[profiles.dev]\nstorage = { secret_key = [1] }\n", "storage.secret_key"),
        ("default_profile = 'gone'\n", "profile 'gone'"),
    ],
)
def test_a_broken_profile_file_says_where(profiles: Path, content: str, words: str) -> None:
    profiles.write_text(content)
    ran = (
        run("config", "show", "--profile", "dev")
        if "gone" not in content
        else run("config", "show")
    )
    assert ran.code == 2, ran
    assert words in ran.err


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("storage.region", "eu", "eu"),
        ("storage.aws_endpoint", "http://localhost:9000", "http://localhost:9000"),
        ("storage.endpoint", "https://user:pw@host/x?sig=abc", "https://********@host/x?********"),
        ("storage.account_key", "abc", "********"),
        ("storage.anything_else", "abc", "********"),
        ("root", "s3://bucket/p", "s3://bucket/p"),
        ("root", "abfss://container@account/p", "abfss://container@account/p"),
        ("property.commit_timeout", "5", "5"),
        ("property.storage.session_token", "abc", "********"),
    ],
)
def test_secrets_are_masked(key: str, value: str, expected: str) -> None:
    assert mask(key, value) == expected


def test_secrets_leave_no_trace_in_errors(root: Path) -> None:
    secret = "s3cr3t-s3cr3t"
    root.mkdir()
    from lance_catalog.cli.session import Session

    session = Session()
    session.__dict__["settings"] = settings(**{"storage.secret_key": secret, "storage.x": "true"})
    assert session.scrub(f"refused {secret}, true") == "refused ********, true"
    ran = run("--root", str(root), "--storage", f"secret_key={secret}", "config", "show")
    assert secret not in ran.out + ran.err
