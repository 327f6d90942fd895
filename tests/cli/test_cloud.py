"""The command line on real object stores: credentials from the environment, never shown."""

from __future__ import annotations

import pytest
from tests.cli.support import Ran, run, sample, stream
from tests.servers.fixtures import Cloud

from lance_catalog import connect

pytestmark = pytest.mark.integration


def test_a_catalog_in_a_bucket(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    root = cloud.uri("catalog")
    for name, value in cloud.options.items():
        monkeypatch.setenv(f"LANCE_CATALOG_STORAGE_{name.upper()}", value)
    monkeypatch.setenv("LANCE_CATALOG_ROOT", root)

    def ok(*args: str) -> Ran:
        ran = run(*args)
        assert ran.code == 0, ran
        return ran

    ok("namespace", "create", "prod.analytics", "--parents")
    options = {f"storage.{name}": value for name, value in cloud.options.items()}
    connect(root, **options).create_table({"id": ["prod", "analytics", "t"]}, stream(sample(5)))
    assert ok("table", "list", "-r", "-o", "plain").out == "prod.analytics.t\n"
    assert ok("table", "count", "prod.analytics.t", "-o", "plain").out == "5\n"
    ok("table", "rename", "prod.analytics.t", "u")
    assert len(ok("table", "head", "u", "-n", "2", "-o", "json").json) == 2
    ok("check", "--grace", "0")
    plan = ok("table", "drop", "u", "--dry-run", "-o", "json").json["plan"]
    assert cloud.bucket in plan[0]["detail"]
    ok("table", "drop", "u", "--yes")
    assert ok("table", "list", "-r", "-o", "json").json == []
    shown = ok("config", "show")
    for name, value in cloud.options.items():
        if "key" in name and "id" not in name:
            assert value not in shown.out


def test_wrong_credentials_are_denied(cloud: Cloud) -> None:
    options = dict(cloud.options)
    secret = next(name for name in options if "secret" in name or "account_key" in name)
    options[secret] = "d3Jvbmctd3Jvbmctd3Jvbmc="
    flags = [word for item in options.items() for word in ("--storage", "=".join(item))]
    ran = run("--root", cloud.uri("catalog"), *flags, "-o", "json", "table", "list")
    assert ran.code == 5, ran
    assert ran.error["code"] in (15, 16)
    assert options[secret] not in ran.err
