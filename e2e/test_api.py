"""The tests' own client of the API server, against a server that never stops talking."""

import contextlib
import http.server
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.api import Watch

LINE = json.dumps({"object": "x" * 50_000}).encode() + b"\n"


class Talker(http.server.BaseHTTPRequestHandler):
    """Answers each GET with lines without end."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):  # the client is gone
            while True:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(LINE), LINE))

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """Of a Talker behind TLS."""
    key, certificate, made = tmp_path / "key", tmp_path / "certificate", tmp_path / "kubeconfig"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Talker) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        cluster = {"certificate-authority": str(certificate), "server": f"https://127.0.0.1:{server.server_address[1]}"}
        made.write_text(json.dumps({"clusters": [{"cluster": cluster}], "users": [{"user": {"token": "t"}}]}))
        yield made
        server.shutdown()
        thread.join()


def test_a_watch_closed_in_the_middle_of_a_line_ends_in_peace(kubeconfig: Path) -> None:
    """No ciphertext is taken for a line, and no socket is left open: either is an error of pytest's."""
    for _ in range(20):
        watch = Watch(kubeconfig, "/x")
        lines: list[object] = []
        thread = threading.Thread(target=lambda watch=watch, lines=lines: lines.extend(json.loads(line) for line in watch))
        thread.start()
        time.sleep(0.02)
        watch.close()
        thread.join(10)
        assert not thread.is_alive()
