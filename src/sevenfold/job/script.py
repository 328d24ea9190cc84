"""A plan as bash, for people who want the script: the same environment and argv for every replica, nothing hidden.

It starts, waits until each replica has really answered, and stops all when it ends. What it does not do: restart,
stagger, sweep a dead replica's GPU, compare what came up with the plan.
"""

import shlex

import msgspec

from sevenfold.job.planning import Launch, Plan
from sevenfold.node.gpus import VARIABLE

WIDTH = 118
"""Columns after which a command goes on in the next line."""

TEMPLATE = """\
#!/usr/bin/env bash
# {title}
# Usage: bash SCRIPT [LOG_FOLDER]. Each replica's URL is printed once it has answered; Ctrl-C or TERM stops all of them.
# PYTHON names the engine's interpreter, PATIENCE the seconds that a start may take.
set -euo pipefail

logs=${{1:-logs}}
python=${{PYTHON:-{python}}}
patience=${{PATIENCE:-1800}}
json='Content-Type: application/json'
question={question}
IFS=, read -ra gpus <<<"${{{variable}:-{devices}}}"
pids=() ports=()

mkdir -p "$logs"
if ((${{#gpus[@]}} < {count})); then
  echo "{count} GPUs are needed, {variable} names ${{#gpus[@]}}" >&2
  exit 2
fi
# One TERM is not enough: it is lost on a child that has not become its program yet.
stop() {{
  for pid in "${{pids[@]}}"; do
    while kill -0 "$pid"; do
      kill -- "-$pid" || kill "$pid" || true
      sleep 0.2
    done
  done 2>/dev/null
}}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# replica NAME PORT [VARIABLE=VALUE...] COMMAND...: starts it in a session of its own, its output in $logs.
replica() {{
  local name=$1 port=$2
  shift 2
  if (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    echo "port $port is taken: replica $name cannot have it" >&2
    exit 3
  fi
  setsid env "$@" >"$logs/replica-$name.log" 2>&1 </dev/null &
  pids[name]=$! ports[name]=$port
}}

{replicas}

# Ready is who has answered: a server can say so on {ready_path} long before.
for name in "${{!pids[@]}}"; do
  url=http://127.0.0.1:${{ports[name]}}
  until {{ curl -fs -m 300 -o /dev/null -H "$json" -d "$question" "$url{path}" & wait $!; }}; do
    if ! kill -0 "${{pids[name]}}" 2>/dev/null; then
      echo "replica $name ended while it started; the end of $logs/replica-$name.log:" >&2
      tail -n 20 "$logs/replica-$name.log" >&2
      exit 7
    elif ((SECONDS > patience)); then
      echo "replica $name has not answered in $patience s; see $logs/replica-$name.log" >&2
      exit 7
    fi
    sleep 0.5
  done
  echo "$url"
done
echo "${{#pids[@]}} replicas ready" >&2

wait -n "${{pids[@]}}" || true
for name in "${{!pids[@]}}"; do
  if ! kill -0 "${{pids[name]}}" 2>/dev/null; then
    echo "replica $name ended; the end of $logs/replica-$name.log:" >&2
    tail -n 20 "$logs/replica-$name.log" >&2
  fi
done
exit 7
"""


def script(plan: Plan) -> str:
    first = plan.launches[0]
    path, question = _question(plan.profile.engine, first.model)
    devices = [gpu for launch in plan.launches for gpu in launch.gpus]
    profile = plan.profile
    what = f"{len(plan.launches)} x {profile.model} with {profile.engine} {plan.engine_version} on {plan.gpu.name}"
    return TEMPLATE.format(
        title=" ".join(f"{what}, as sevenfold's profile {profile.name} starts it.".split()),
        python=shlex.quote(first.command.argv[0]),
        question=shlex.quote(question),
        variable=VARIABLE,
        devices=",".join(devices),
        count=len(devices),
        replicas="\n\n".join(_replica(launch) for launch in plan.launches),
        ready_path=first.ready_path,
        path=path,
    )


def _question(engine: str, model: str) -> tuple[str, str]:
    """Path and body of the shortest request. SGLang's takes ids: it also works where no tokenizer is loaded."""
    if engine == "sglang":
        return "/generate", '{"input_ids": [1, 2, 3], "sampling_params": {"max_new_tokens": 1}}'
    asked = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
    return "/v1/chat/completions", msgspec.json.encode(asked).decode()


def _replica(launch: Launch) -> str:
    """The call, a flag and its value never torn apart."""
    mine = ",".join(f"${{gpus[{gpu}]}}" for gpu in launch.gpus)
    words = [f"replica {launch.name} {launch.port}", f'{VARIABLE}="{mine}"']
    words += [shlex.quote(f"{key}={value}") for key, value in launch.command.env.items() if key != VARIABLE]
    words.append('"$python"')
    for word in map(shlex.quote, launch.command.argv[1:]):
        if words[-1].startswith("-") and " " not in words[-1] and not word.startswith("-"):
            words[-1] += f" {word}"
        else:
            words.append(word)
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) > WIDTH:
            lines.append(f"  {word}")
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return " \\\n".join(lines)
