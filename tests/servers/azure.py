"""An Azure Blob server (Azurite) on a free loopback port."""

from __future__ import annotations

import base64
import http.client
import secrets
import shutil
from pathlib import Path

from obstore.store import AzureStore

from tests.servers.fetch import AZURITE, ToolchainMissingError
from tests.servers.process import LOOPBACK, ServerProcess
from tests.servers.sign import Reply, azure_request

ACCOUNT = "testaccount"


class AzuriteServer(ServerProcess):
    """``with AzuriteServer() as server: server.create_container("abc")``; names have 3+ letters."""

    def __init__(self) -> None:
        super().__init__()
        # Random, not Azurite's well-known key, so that a test can never reach another Azurite.
        self._key = base64.b64encode(secrets.token_bytes(64)).decode()

    def _command(self, data: Path) -> tuple[list[str], dict[str, str]]:
        node = shutil.which("node")
        if node is None:
            message = "`node` is not on PATH; Azurite needs it to run"
            raise ToolchainMissingError(message)
        command = [node, str(AZURITE.path()), "--blobHost", LOOPBACK, "--blobPort", str(self.port)]
        command += ["--location", str(data), "--silent", "--disableTelemetry"]
        return command, {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{self._key}"}

    def _is_ready(self) -> bool:
        try:
            return self.request("GET", "/", {"comp": "list"}).status == 200
        except (OSError, http.client.HTTPException):
            return False

    def request(self, method: str, path: str, query: dict[str, str]) -> Reply:
        """One signed request without a body, for what obstore cannot do: containers."""
        return azure_request((LOOPBACK, self.port), ACCOUNT, self._key, method, path, query)

    def create_container(self, name: str) -> None:
        reply = self.request("PUT", f"/{name}", {"restype": "container"})
        if reply.status != 201:
            message = f"cannot create container {name}: {reply.status} {reply.body!r}"
            raise RuntimeError(message)

    # One name for both servers lets a test run over either.
    create_bucket = create_container

    def storage_options(self, container: str, *, endpoint: str | None = None) -> dict[str, str]:
        """Options for Lance, and for ``AzureStore(container, config=...)``.

        Not azure_storage_use_emulator: with it the endpoint is ignored in favour of port 10000 (or
        an environment variable of the whole process). An endpoint that ends in the account works
        for any port.
        """
        del container
        return {
            "account_name": ACCOUNT,
            "account_key": self._key,
            "azure_endpoint": f"{endpoint or self.endpoint}/{ACCOUNT}",
            "allow_http": "true",
        }

    def store(
        self, container: str, *, prefix: str | None = None, endpoint: str | None = None
    ) -> AzureStore:
        # allow_http apart, for the reason given in S3Server.store.
        config = self.storage_options(container, endpoint=endpoint)
        del config["allow_http"]
        return AzureStore(
            container,
            prefix=prefix,
            config=config,  # type: ignore[arg-type]
            client_options={"allow_http": True},
        )

    def uri(self, container: str, path: str) -> str:
        return f"az://{container}/{path}"
