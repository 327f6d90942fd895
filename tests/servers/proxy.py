"""A counting reverse proxy in front of a store, with faults on demand.

Requests pass unchanged, the Host header included: S3 signatures cover it. Bodies are held in
memory whole, which is fine for test data and lets a chunked body be passed on with its length.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from tests.servers.process import LOOPBACK
from tests.servers.traffic import Kind, Traffic

UPSTREAM_SECONDS = 60.0
# These speak of one connection, not of the message; each side of the proxy has its own.
HOP_BY_HOP = {
    "connection",
    "expect",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}


class _Listener(ThreadingMixIn, TCPServer):
    # Not HTTPServer: its bind looks up the host's name, which can take seconds.
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, upstream: tuple[str, int], traffic: Traffic) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.upstream = upstream
        self.traffic = traffic
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is no news; the client's own error is."""

    def close_connections(self) -> None:
        # Clients keep idle connections; without this their threads would outlive the proxy.
        with self._guard:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    protocol_version = "HTTP/1.1"
    # Head and body in two packets would wait for a delayed acknowledgement, 40 ms each time.
    disable_nagle_algorithm = True
    wbufsize = -1
    _upstream: http.client.HTTPConnection | None = None

    def _handle(self) -> None:
        body = self._read_body()
        traffic = self.server.traffic
        request, fault = traffic.arrived(self.command, self.path, self.headers.keys())
        if fault is not None and not fault.forward:
            traffic.answered(request, fault.status)
            self._reply(fault.status, [("Content-Length", "0")], b"")
            return
        status, headers, content = self._forward(body)
        traffic.answered(request, status)
        if fault is not None:
            # The store has done it, and the client will never hear of it.
            self.close_connection = True
            return
        self._reply(status, headers, content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():  # trailers
            pass
        return b"".join(parts)

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        reused = self._upstream is not None
        try:
            return self._exchange(body)
        except (OSError, http.client.HTTPException):
            self._disconnect()
            # The store may have closed an idle connection. Only what is safe to send twice is: a
            # repeated conditional put would lose to itself.
            if not reused or self.command not in ("GET", "HEAD"):
                raise
            return self._exchange(body)

    def _exchange(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        if self._upstream is None:
            self._upstream = http.client.HTTPConnection(
                *self.server.upstream, timeout=UPSTREAM_SECONDS
            )
        upstream = self._upstream
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in HOP_BY_HOP and name.lower() != "content-length":
                upstream.putheader(name, value)
        if body or "Content-Length" in self.headers or self.command in ("PUT", "POST"):
            upstream.putheader("Content-Length", str(len(body)))
        upstream.endheaders(body or None)
        reply = upstream.getresponse()
        content = reply.read()
        headers = [(k, v) for k, v in reply.getheaders() if k.lower() not in HOP_BY_HOP]
        # HEAD has the length of what GET would send; a chunked reply has none until now.
        if self.command != "HEAD" and reply.getheader("Content-Length") is None:
            headers.append(("Content-Length", str(len(content))))
        if reply.will_close:
            self._disconnect()
        return reply.status, headers, content

    def _reply(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            # A 204 must not have a length: some clients would wait for a body.
            if status != 204 or name.lower() != "content-length":
                self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def _disconnect(self) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.close()

    def finish(self) -> None:
        self._disconnect()
        super().finish()


class CountingProxy:
    """Listens from construction to the end of the ``with`` block.

    ``with CountingProxy(server.endpoint) as proxy:``, and then
    ``server.storage_options(bucket, endpoint=proxy.endpoint)``.
    """

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        if parts.hostname is None or parts.port is None:
            message = f"no host and port in {upstream!r}"
            raise ValueError(message)
        self.traffic = Traffic()
        self._listener = _Listener((parts.hostname, parts.port), self.traffic)
        self.endpoint = f"http://{LOOPBACK}:{self._listener.server_address[1]}"
        self._thread = threading.Thread(
            target=self._listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown()
        self._listener.server_close()
        self._listener.close_connections()
        self._thread.join()

    def fail_next(
        self, count: int, *, kind: Kind | None = None, path: str = "", status: int = 503
    ) -> None:
        """Answer ``status`` to the next ``count`` matching requests; the store never sees them."""
        self.traffic.plant(count, kind=kind, path=path, forward=False, status=status)

    def drop_reply_next(self, count: int, *, kind: Kind | None = None, path: str = "") -> None:
        """Let the store do the next ``count`` matching requests, then close without a reply."""
        self.traffic.plant(count, kind=kind, path=path, forward=True, status=0)
