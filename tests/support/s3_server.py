"""S3 on this machine: moto's server, as a program. It says its port in one line, and ends with its standard input.

S3 makes exactly one of several conditional puts win. moto looks first and puts then, each in a thread of its own, so
that two could win: here one request that writes is served at a time.
"""

from __future__ import annotations

import logging
import sys
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


class OneWriteAtATime:
    def __init__(self, application):
        self._application, self._lock = application, threading.Lock()

    def __call__(self, environ, start_response):
        if "forgets-conditions" in sys.argv:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if environ["REQUEST_METHOD"] in {"GET", "HEAD"}:
            return self._application(environ, start_response)
        with self._lock:
            return self._application(environ, start_response)


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server(
        "127.0.0.1", 0, OneWriteAtATime(DomainDispatcherApplication(create_backend_app)), threaded=True
    )
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
