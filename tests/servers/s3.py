"""An S3 server (MinIO) on a free loopback port."""

from __future__ import annotations

import http.client
import secrets
from pathlib import Path

from obstore.store import S3Store

from tests.servers.fetch import MINIO
from tests.servers.process import LOOPBACK, ServerProcess
from tests.servers.sign import Reply, s3_request

REGION = "us-east-1"


class S3Server(ServerProcess):
    """``with S3Server() as server: server.create_bucket("abc")``; names have 3+ letters."""

    def __init__(self) -> None:
        super().__init__()
        # Random, so that a test can never reach a server other than the one it started.
        self._key_id = "test" + secrets.token_hex(8)
        self._secret = secrets.token_hex(16)

    def _command(self, data: Path) -> tuple[list[str], dict[str, str]]:
        # MinIO makes a directory in its user's home, even if told of another for certificates; a
        # browser console would take a second port; an update check would call out of the machine.
        command = [str(MINIO.path()), "server", "--address", f"{LOOPBACK}:{self.port}"]
        command += ["--quiet", str(data)]
        settings = {
            "HOME": str(self.scratch),
            "MINIO_ROOT_USER": self._key_id,
            "MINIO_ROOT_PASSWORD": self._secret,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
        }
        return command, settings

    def _is_ready(self) -> bool:
        try:
            return self.request("GET", "/").status == 200
        except (OSError, http.client.HTTPException):
            return False

    def request(
        self, method: str, path: str, query: dict[str, str] | None = None, body: bytes = b""
    ) -> Reply:
        """One signed S3 request, for what obstore cannot do: buckets, bucket policies."""
        address = (LOOPBACK, self.port)
        return s3_request(address, self._key_id, self._secret, REGION, method, path, query, body)

    def create_bucket(self, name: str) -> None:
        reply = self.request("PUT", f"/{name}")
        if reply.status != 200:
            message = f"cannot create bucket {name}: {reply.status} {reply.body!r}"
            raise RuntimeError(message)

    def storage_options(self, bucket: str, *, endpoint: str | None = None) -> dict[str, str]:
        """Options for Lance, and for ``S3Store(bucket, config=...)``.

        ``endpoint`` goes through a proxy instead. The bucket is in the signature because other
        stores need it there; S3 options do not name it. See ``store`` for why obstore is better
        off with the same options in two parts.
        """
        del bucket
        return {
            "aws_access_key_id": self._key_id,
            "aws_secret_access_key": self._secret,
            "aws_endpoint": endpoint or self.endpoint,
            "aws_region": REGION,
            "allow_http": "true",
        }

    def store(
        self, bucket: str, *, prefix: str | None = None, endpoint: str | None = None
    ) -> S3Store:
        # With allow_http in config= the store works, but reading its .config, pickling it, and
        # from_url panic: it is a client option.
        config = self.storage_options(bucket, endpoint=endpoint)
        del config["allow_http"]
        return S3Store(
            bucket,
            prefix=prefix,
            config=config,  # type: ignore[arg-type]
            client_options={"allow_http": True},
        )

    def uri(self, bucket: str, path: str) -> str:
        return f"s3://{bucket}/{path}"
