"""A receiver of OpenTelemetry spans (OTLP over HTTP, protobuf) for tests."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True)
class Span:
    """Ids in hex; `parent` is "" for a root. `links` are the traces that it points to."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    links: tuple[str, ...] = ()


class SpanReceiver:
    """Listens on a free port of loopback and keeps what it is sent."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._take))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def of_trace(self, trace: str) -> list[Span]:
        return [span for span in self.spans if span.trace == trace]

    def _take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = [a.value.string_value for a in resource.resource.attributes if a.key == "service.name"]
            for scope in resource.scope_spans:
                self.spans += [_span(names[0] if names else "", span) for span in scope.spans]


def _span(service: str, span: Any) -> Span:
    links = tuple(link.trace_id.hex() for link in span.links)
    return Span(service, span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), links)


def _handler(take: Callable[[bytes], None]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/traces":
                take(body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            """Tests read their own output."""

    return Handler
