"""Stands in for llama.cpp behind the fleet: same argv, same API, and faults on demand by `--flag=NAME=VALUE`.

die=N       the first N starts end at once, saying why
load=S      seconds until it listens, a line of log ten times in between
silent=1    never listens, never says anything
serves=X    answers under another model's name
hang=N      completions after the first N are never answered, while /health and /metrics say that all is well
"""

import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ARGS = dict(zip(sys.argv[2::2], sys.argv[3::2], strict=False))
FLAGS = dict(word.removeprefix("--flag=").split("=", 1) for word in sys.argv if word.startswith("--flag="))
NAME = FLAGS.get("serves", ARGS["--name"])
COMPLETION = {"content": "hello", "tokens": [7, 2], "stop_type": "eos", "model": NAME}
ANSWERS = {
    "/health": {"status": "ok"},
    "/props": {"model_alias": NAME, "total_slots": 1},
    "/v1/models": {"data": [{"id": NAME}]},
    "/apply-template": {"prompt": "hi"},
    "/tokenize": {"tokens": [1, 5]},
    "/completion": COMPLETION,
}


class Api(BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/completion":
            Api.asked += 1
            if Api.asked > int(FLAGS.get("hang", 1_000_000)):
                threading.Event().wait()
        if self.path == "/metrics":
            body = f"llamacpp:tokens_predicted_total {2 * Api.asked}\nllamacpp:requests_processing 0\n".encode()
        else:
            body = json.dumps(ANSWERS[self.path]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET


def main() -> None:
    starts = Path(f"{ARGS['--model']}.starts")
    with starts.open("a") as file:
        file.write("x")
    if starts.stat().st_size <= int(FLAGS.get("die", 0)):
        sys.exit("CUDA error: no device")
    if "silent" in FLAGS:
        signal.pause()
    for part in range(10):
        print(f"loading {part}0%", flush=True)
        threading.Event().wait(float(FLAGS.get("load", 0)) / 10)
    ThreadingHTTPServer.daemon_threads = True
    server = ThreadingHTTPServer(("127.0.0.1", int(ARGS["--port"])), Api)
    print("listening", os.getpid(), flush=True)
    server.serve_forever()


main()
