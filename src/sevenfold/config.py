"""RunSpec: everything a user can say about a run, typed and frozen, in one TOML file or as flags.

Precedence: flag > environment (SEVENFOLD_SECTION_FIELD) > file > default. An unknown key is refused with the nearest
known name. The resolved spec is saved in the run directory. Engine flags pass through under the engine's own names.
This room knows nothing of engines, files of prompts or machines: it only says what was asked for.
"""

import difflib
import hashlib
import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

import msgspec

from sevenfold.errors import ConfigError
from sevenfold.types import JSON, is_object

Positive = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the spec."""


class Fleet(Part, frozen=True):
    engine: Literal["llamacpp", "sglang", "vllm", "openai", "fake"] = "llamacpp"
    """The program behind each replica; 'openai' speaks to endpoints that somebody else started."""
    replicas: Positive = 1
    """How many replicas to start on this machine, one per GPU where there are GPUs."""
    endpoints: tuple[str, ...] = ()
    """URLs of OpenAI-compatible servers that run already; then no replica is started."""
    api_key: str = ""
    """Name of the environment variable that holds the endpoints' key; the key itself is never written down."""
    base_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    """Replica i listens on base_port + i, or nothing starts where that is taken. 0: free ports are chosen."""
    slots: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Requests in flight per replica. 0: what the engine says it runs at once (external endpoints: 64)."""
    context: Positive = 4096
    """Tokens of prompt and completion together that one request may use."""
    python: str = ""
    """Interpreter of the engine's own environment. Empty: the one that runs sevenfold."""
    flags: dict[str, str | int | float | bool] = {}
    """Engine flags under the engine's own names, without dashes in front."""
    env: dict[str, str] = {}
    """Added to the environment of each replica."""
    tokenizer: str = ""
    """Folder of the model's tokenizer and chat template, for endpoints that run already and take token ids."""
    start_timeout: Annotated[float, msgspec.Meta(gt=0)] = 1800.0
    """Seconds a replica may take to answer its first request while its log stands still."""

    canary_every: Annotated[float, msgspec.Meta(ge=0)] = 3600.0
    """Seconds between two checks that every server renders, serves and thinks as the others do; the first one comes
    before its first row. 0: never."""

    @property
    def loads_weights(self) -> bool:
        """False where the engine is told to make them up, as benchmarks of a model's shape do."""
        return self.flags.get("load-format") != "dummy"


class Sampling(Part, frozen=True):
    temperature: Annotated[float, msgspec.Meta(ge=0)] = 0.6
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.95
    top_k: int = 20
    min_p: Share = 0.0
    max_tokens: Positive = 2048
    """Most tokens of one completion, reasoning included."""
    seed: int | None = None
    """Sample i of a prompt is asked with seed + i. None: the engine draws its own."""
    extra: dict[str, Any] = {}
    """More request parameters under the engine's own names, sent as they are."""


class Conversation(Part, frozen=True):
    turns: Literal["last", "all"] = "last"
    """'last': answer the last user turn, earlier answers stay. 'all': regenerate every assistant turn in order."""
    samples: Positive = 1
    """Completions per prompt."""
    thinking: bool | None = None
    """Whether replies must think. None: as the model's chat template says; yes where no template can be seen."""
    template_kwargs: dict[str, Any] = {}
    """Further arguments of the chat template."""


class Judge(Part, frozen=True):
    trivial_tokens: Annotated[int, msgspec.Meta(ge=0)] = 16
    """A reply of fewer output tokens than this is trivial."""
    limits: dict[str, Share] = {}
    """Share of rows with a flag above which the run stops, per flag; over the checks' own limits."""


class RunSpec(Part, frozen=True):
    inputs: tuple[str, ...] = ()
    """Files of prompts."""
    model: str = ""
    """A local model (GGUF file or folder), hf:ORG/NAME@REVISION, or the name that external endpoints serve.
    Empty: the built-in small model, or the one model that the endpoints serve."""
    fleet: Fleet = Fleet()
    sampling: Sampling = Sampling()
    conversation: Conversation = Conversation()
    judge: Judge = Judge()


def load(
    path: Path | None, flags: JSON | None = None, env: dict[str, str] | None = None, profile: JSON | None = None
) -> RunSpec:
    """The resolved spec from a launch profile, a TOML file, the environment and flags, each over the one before; all
    nested like the file. None values of `flags` are ignored.

    ConfigError on a file that cannot be read, an unknown key, or a value of the wrong type or range."""
    table: JSON = _merge(profile or {}, _read(path) if path else {})
    where = str(path) if path else "the command line"
    table = _merge(table, _from_env(dict(os.environ) if env is None else env))
    table = _merge(table, flags or {})
    return decode(table, where)


def decode(table: JSON, where: str) -> RunSpec:
    _refuse_unknown(table, RunSpec, where, "")
    try:
        return msgspec.convert(table, RunSpec)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}", "sevenfold run --help shows every setting and its range") from None


def dump(spec: RunSpec) -> bytes:
    """The spec as indented JSON, for the run directory. Reads back with `read`."""
    return msgspec.json.format(msgspec.json.encode(spec), indent=2) + b"\n"


def read(path: Path) -> RunSpec:
    return msgspec.json.decode(path.read_bytes(), type=RunSpec)


def asked(spec: RunSpec) -> JSON:
    """What decides the content of a completion, as plain JSON: two runs that differ here must never be mixed.

    Where and how fast it runs (replicas, ports, slots), the input's rows and the judge's limits stay out."""
    return {
        "model": spec.model,
        "engine": spec.fleet.engine,
        "sampling": msgspec.to_builtins(spec.sampling),
        "conversation": msgspec.to_builtins(spec.conversation),
    }


def fingerprint(content: JSON) -> str:
    """12 hex digits over canonical JSON (sorted keys, no spaces)."""
    canonical = msgspec.json.encode(content, order="sorted")
    return hashlib.blake2b(canonical, digest_size=6).hexdigest()


def _read(path: Path) -> JSON:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file", "-c takes a TOML run file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None


def _merge(under: JSON, over: JSON) -> JSON:
    merged = dict(under)
    for key, value in over.items():
        if value is None:
            continue
        below = merged.get(key)
        merged[key] = _merge(below, value) if is_object(value) and is_object(below) else value
    return merged


def _parts(part: type[Part]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(part)}


def _refuse_unknown(table: JSON, part: type[Part], where: str, prefix: str) -> None:
    known = _parts(part)
    for key, value in table.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            guess = f"did you mean {prefix}{near[0]}?" if near else f"known here: {', '.join(sorted(known))}"
            raise ConfigError(f"{where}: unknown key {prefix}{key}", guess)
        if is_object(value) and isinstance(known[key], type) and issubclass(known[key], Part):
            _refuse_unknown(value, known[key], where, f"{prefix}{key}.")


def _from_env(env: dict[str, str]) -> JSON:
    """SEVENFOLD_MODEL, SEVENFOLD_SAMPLING_MAX_TOKENS, ...: scalars only; a variable that names no setting is ignored,
    since others may use the prefix too."""
    table: JSON = {}
    for name, kind in _parts(RunSpec).items():
        if isinstance(kind, type) and issubclass(kind, Part):
            for field, inner in _parts(kind).items():
                _take(env, f"SEVENFOLD_{name}_{field}".upper(), inner, table.setdefault(name, {}), field)
        else:
            _take(env, f"SEVENFOLD_{name}".upper(), kind, table, name)
    return table


def _take(env: dict[str, str], variable: str, kind: Any, table: JSON, field: str) -> None:
    text = env.get(variable)
    if text is None or get_origin(kind) is dict:
        return
    if get_origin(kind) is tuple:
        table[field] = text.split()
        return
    try:
        table[field] = msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{variable}={text}: {error}") from None
