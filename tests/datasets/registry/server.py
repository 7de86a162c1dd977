"""A server on the loopback address that behaves well, or badly on purpose."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from equigeo.datasets.registry import catalogue, download
from equigeo.datasets.registry.catalogue import DataFile

CONTENT = bytes(range(256)) * 1000


@dataclass
class Server:
    """What it serves, how, and what it was asked."""

    url: str = ""
    content: bytes = CONTENT
    breaks_after: list[int] = field(default_factory=list)  # bytes, one for every answer
    redirect: str = ""
    status: int = 0
    tells_length: bool = True
    answers: int = 0

    def file(self, **changes: Any) -> DataFile:
        """The file that it serves, as it should be."""
        known = {"bytes": len(self.content), "sha256": hashlib.sha256(self.content).hexdigest()}
        return DataFile("a.bin", self.url, **(known | changes))


class _Handler(BaseHTTPRequestHandler):
    served: Server

    def do_GET(self) -> None:
        self.served.answers += 1
        if self.served.redirect or self.served.status:
            self.send_response(302 if self.served.redirect else self.served.status)
            self.send_header("Location", self.served.redirect)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = self.served.content
        self.send_response(200)
        if self.served.tells_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.served.breaks_after:
            body = body[: self.served.breaks_after.pop(0)]
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Be quiet."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A running server, which alone may be asked without https."""
    served = Server()
    handler = type("Handler", (_Handler,), {"served": served})
    running = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    served.url = f"http://127.0.0.1:{running.server_address[1]}/a.bin"
    for module in (catalogue, download):
        allowed = lambda url: url.startswith(("https://", "http://127.0.0.1:"))  # noqa: E731
        monkeypatch.setattr(module, "is_allowed", allowed)
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield served
    running.shutdown()
    thread.join()
    running.server_close()
