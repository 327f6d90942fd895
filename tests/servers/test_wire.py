"""The proxy's HTTP, and how it names requests, against a plain echo server: needs no store."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from tests.servers.process import LOOPBACK
from tests.servers.proxy import CountingProxy
from tests.servers.traffic import Kind, classify


class _Echo(BaseHTTPRequestHandler):
    """Answers a request with its body, or its Host if it has none, in chunks if asked to."""

    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        assert "Transfer-Encoding" not in self.headers
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = body or self.headers["Host"].encode()
        self.send_response(200)
        if self.path == "/chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for at in range(0, len(body), 5):
                part = body[at : at + 5]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
            return
        self.send_header("Content-Length", str(len(body)))
        # The connection is closed under the proxy now and then, as stores do with idle ones.
        self.close_connection = self.path == "/close"
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def proxy() -> Iterator[CountingProxy]:
    with ThreadingHTTPServer((LOOPBACK, 0), _Echo) as echo:
        thread = threading.Thread(target=echo.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        with CountingProxy(f"http://{LOOPBACK}:{echo.server_address[1]}") as proxy:
            yield proxy
        echo.shutdown()
        echo.block_on_close = False


@pytest.fixture
def client(proxy: CountingProxy) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(urlsplit(proxy.endpoint).netloc, timeout=10)
    yield connection
    connection.close()


def _ask(
    client: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None
) -> bytes:
    client.request(method, path, body)
    reply = client.getresponse()
    assert reply.status == 200
    return reply.read()


def test_one_connection_serves_many_requests(client: http.client.HTTPConnection) -> None:
    client.connect()
    socket = client.sock
    for method in ("PUT", "POST", "DELETE"):
        assert _ask(client, method, "/k", b"body") == b"body"
    assert _ask(client, "HEAD", "/k") == b""
    assert _ask(client, "PUT", "/k", b"") == _ask(client, "GET", "/k")
    assert client.sock is socket


def test_the_host_header_is_the_clients(
    client: http.client.HTTPConnection, proxy: CountingProxy
) -> None:
    assert _ask(client, "GET", "/k").decode() == urlsplit(proxy.endpoint).netloc


def test_chunked_both_ways(client: http.client.HTTPConnection) -> None:
    client.request("PUT", "/chunked", iter([b"one ", b"two ", b"three"]), encode_chunked=True)
    assert client.getresponse().read() == b"one two three"
    assert _ask(client, "PUT", "/k", b"after") == b"after"


def test_a_connection_closed_by_the_store_is_reopened(client: http.client.HTTPConnection) -> None:
    for _ in range(3):
        assert _ask(client, "PUT", "/close", b"x") == b"x"
        assert _ask(client, "GET", "/k")


def test_stopping_closes_idle_connections(proxy: CountingProxy) -> None:
    with CountingProxy(proxy.endpoint) as outer:
        connection = http.client.HTTPConnection(urlsplit(outer.endpoint).netloc, timeout=10)
        assert _ask(connection, "PUT", "/k", b"x") == b"x"
    assert connection.sock.recv(1) == b""
    connection.close()
    with pytest.raises(ConnectionRefusedError):
        connection.connect()


@pytest.mark.parametrize(
    ("method", "target", "header", "kind"),
    [
        ("GET", "/b?list-type=2&prefix=x%2F", "", "LIST"),
        ("GET", "/b", "", "LIST"),
        ("GET", "/account/c?restype=container&comp=list", "", "LIST"),
        ("GET", "/b/k?uploadId=1", "", "LIST"),
        ("GET", "/b?location", "", "GET"),
        ("GET", "/b/k", "Range", "GET"),
        ("HEAD", "/b/k", "", "HEAD"),
        ("PUT", "/b/k", "If-None-Match", "PUT"),
        ("PUT", "/b/k?partNumber=1&uploadId=1", "", "PUT"),
        ("PUT", "/b/k", "X-Amz-Copy-Source", "COPY"),
        ("PUT", "/account/c/k", "x-ms-copy-source", "COPY"),
        ("DELETE", "/b/k", "", "DELETE"),
        ("POST", "/b?delete", "", "DELETE"),
        ("POST", "/account/c?restype=container&comp=batch", "", "DELETE"),
        ("POST", "/b/k?uploads", "", "POST"),
        ("PATCH", "/b/k", "", "POST"),
    ],
)
def test_classify(method: str, target: str, header: str, kind: Kind) -> None:
    assert classify(method, target, [header]) == kind
