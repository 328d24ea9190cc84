from pathlib import Path

import pytest

from sevenfold.config import RunSpec, Sampling, asked, decode, dump, fingerprint, load, read
from sevenfold.errors import ConfigError


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(text)
    return path


def test_flag_over_environment_over_file_over_default(tmp_path: Path) -> None:
    path = write(tmp_path, "[sampling]\nmax_tokens = 1\ntop_k = 2\nseed = 3\n")
    env = {"SEVENFOLD_SAMPLING_TOP_K": "20", "SEVENFOLD_SAMPLING_SEED": "30"}
    spec = load(path, {"sampling": {"seed": 300, "temperature": None}}, env)
    assert Sampling(max_tokens=1, top_k=20, seed=300) == spec.sampling


def test_an_unknown_key_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    path = write(tmp_path, "[sampling]\nmax_token = 1\n")
    with pytest.raises(ConfigError) as caught:
        load(path, env={})
    assert "unknown key sampling.max_token" in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.remedy == "did you mean sampling.max_tokens?"


def test_an_unknown_table_lists_what_is_known() -> None:
    with pytest.raises(ConfigError) as caught:
        decode({"zzzz": 1}, "here")
    assert "sampling" in caught.value.remedy


@pytest.mark.parametrize(
    "table",
    [
        {"sampling": {"max_tokens": 0}},
        {"sampling": {"max_tokens": "many"}},
        {"sampling": {"top_p": 1.5}},
        {"conversation": {"turns": "some"}},
        {"fleet": {"engine": "tgi"}},
        {"judge": {"limits": {"trivial": 2}}},
    ],
)
def test_a_wrong_value_is_refused_with_its_path(table: dict[str, dict[str, object]]) -> None:
    (part,) = table
    with pytest.raises(ConfigError, match=part):
        decode(table, "here")


def test_a_wrong_environment_value_names_the_variable() -> None:
    with pytest.raises(ConfigError, match="SEVENFOLD_FLEET_REPLICAS=two"):
        load(None, env={"SEVENFOLD_FLEET_REPLICAS": "two"})


def test_a_list_in_the_environment_is_split_at_spaces() -> None:
    spec = load(None, env={"SEVENFOLD_FLEET_ENDPOINTS": "http://a http://b"})
    assert spec.fleet.endpoints == ("http://a", "http://b")


@pytest.mark.parametrize(("text", "said"), [("[sampling", "not TOML"), (None, "no such file")])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "run.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        load(path, env={})


def test_the_saved_spec_reads_back(tmp_path: Path) -> None:
    spec = load(None, {"inputs": ["a.jsonl"], "sampling": {"seed": 1}, "judge": {"limits": {"trivial": 0.5}}}, {})
    path = tmp_path / "spec.json"
    path.write_bytes(dump(spec))
    assert read(path) == spec


def test_the_fingerprint_follows_what_is_asked_and_not_how_fast() -> None:
    base = fingerprint(asked(RunSpec()))
    faster = decode({"fleet": {"replicas": 7, "base_port": 30000}, "inputs": ["x"], "judge": {"trivial_tokens": 3}}, "")
    hotter = decode({"sampling": {"temperature": 1.0}}, "")
    assert fingerprint(asked(faster)) == base
    assert fingerprint(asked(hotter)) != base
    assert len(base) == 12
