"""The fake engine: OpenAI's chat API from a script of replies, latencies and faults. For rehearsals without a GPU.

The program is `fake_server`; `fleet.flags.script` names its script file.
"""

from sevenfold.engines import prometheus
from sevenfold.engines.base import Command, Load, Serve
from sevenfold.engines.openai import OpenAI


class Fake(OpenAI):
    name = "fake"
    ready_path = "/health"
    metrics_path: str | None = "/metrics"

    def command(self, serve: Serve) -> Command:
        argv = [serve.python, "-m", "sevenfold.engines.fake_server", "--port", str(serve.port)]
        argv += ["--slots", str(serve.slots), "--model", serve.model_name]
        for flag, value in serve.flags.items():
            argv += [f"--{flag}", str(value)]
        return Command(tuple(argv))

    def load(self, metrics: str) -> Load:
        return Load(
            tokens=prometheus.total(metrics, "fake:generated_tokens_total"),
            running=prometheus.total(metrics, "fake:requests_running"),
            queued=prometheus.total(metrics, "fake:requests_queued"),
        )
