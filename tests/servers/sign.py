"""Just enough request signing to make buckets and containers without a cloud SDK.

obstore and Lance read and write objects, but neither can create what holds them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
from datetime import UTC, datetime
from email.utils import formatdate
from typing import NamedTuple
from urllib.parse import quote

TIMEOUT_SECONDS = 10.0


class Reply(NamedTuple):
    status: int
    body: bytes


def _send(
    address: tuple[str, int], method: str, target: str, headers: dict[str, str], body: bytes
) -> Reply:
    connection = http.client.HTTPConnection(*address, timeout=TIMEOUT_SECONDS)
    try:
        connection.request(method, target, body, headers)
        reply = connection.getresponse()
        return Reply(reply.status, reply.read())
    finally:
        connection.close()


def _query(query: dict[str, str]) -> str:
    return "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in sorted(query.items()))


def s3_request(
    address: tuple[str, int],
    key_id: str,
    secret: str,
    region: str,
    method: str,
    path: str,
    query: dict[str, str] | None = None,
    body: bytes = b"",
) -> Reply:
    """One request signed with AWS Signature Version 4. OSError if nobody answers."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    headers = {
        "host": f"{address[0]}:{address[1]}",
        "x-amz-content-sha256": digest,
        "x-amz-date": now,
    }
    target, parameters = quote(path), _query(query or {})
    signed = ";".join(headers)
    canonical = "\n".join(
        [method, target, parameters, *(f"{k}:{v}" for k, v in headers.items()), "", signed, digest]
    )
    scope = f"{now[:8]}/{region}/s3/aws4_request"
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={key_id}/{scope},SignedHeaders={signed},Signature={signature}"
    )
    return _send(address, method, f"{target}?{parameters}" if parameters else target, headers, body)


def azure_request(
    address: tuple[str, int],
    account: str,
    key: str,
    method: str,
    path: str,
    query: dict[str, str],
) -> Reply:
    """One request without a body, signed with Azure's Shared Key. OSError if nobody answers."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2023-11-03"}
    # An emulator has the account as the first part of the path, so it is in the text twice: once
    # as the account, once as the path.
    target = f"/{account}{quote(path)}"
    text = method + "\n" * 12
    text += "".join(f"{name}:{value}\n" for name, value in headers.items())
    text += f"/{account}{target}"
    text += "".join(f"\n{name}:{value}" for name, value in sorted(query.items()))
    digest = hmac.digest(base64.b64decode(key), text.encode(), "sha256")
    headers["authorization"] = f"SharedKey {account}:{base64.b64encode(digest).decode()}"
    headers["content-length"] = "0"
    return _send(address, method, f"{target}?{_query(query)}", headers, b"")
