"""A program that runs moto's S3 server. It prints its port in one line, and ends when its standard input closes.

If several writers put the same key with a condition, S3 lets exactly one of them succeed. moto runs a thread for each
request, and a thread checks the condition before it writes. Two puts could therefore succeed, so this program serves
one writing request at a time.

With the argument `ignores-conditions`, every conditional put succeeds.
"""

from __future__ import annotations

import logging
import sys
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


class OneWriteAtATime:
    """A WSGI application that forwards reads in parallel, and writes one after the other."""

    def __init__(self, application):
        self._application, self._lock = application, threading.Lock()

    def __call__(self, environ, start_response):
        if "ignores-conditions" in sys.argv:
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
