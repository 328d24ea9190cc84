import tomllib
from pathlib import Path

import pytest

from sevenfold.engines.flags import Value
from sevenfold.engines.rules import Finding, advisories, check_flags, nearest, renamed, rules

PROFILES = Path(__file__).parents[2] / "src" / "sevenfold" / "profiles"

AS_FOUND: dict[str, Value] = {
    "speculative-algorithm": "EAGLE",
    "speculative-num-steps": 3,
    "speculative-eagle-topk": 1,
    "speculative-num-draft-tokens": 4,
    "mamba-scheduler-strategy": "extra_buffer",
    "max-mamba-cache-size": 80,
    "mamba-full-memory-ratio": 0.4,
    "mem-fraction-static": 0.90,
    "context-length": 8192,
    "reasoning-parser": "qwen3",
    "trust-remote-code": True,
}


def said(findings: list[Finding], severity: str) -> list[str]:
    return [finding.sentence for finding in findings if finding.severity == severity]


def test_the_as_found_launch_starts_on_its_own_version_and_is_warned_about() -> None:
    findings = check_flags("sglang", "0.5.11", AS_FOUND)
    assert said(findings, "error") == []
    warned = "\n".join(said(findings, "warn"))
    assert "the ratio is ignored" in warned
    assert "80 counts state slots, not GB" in warned
    assert "sets it to 48" in warned
    assert "--trust-remote-code" in warned
    assert "steps and top 1" not in warned


@pytest.mark.parametrize("version", ["0.5.20", "0.5.23"])
def test_the_as_found_launch_is_an_error_on_newer_versions(version: str) -> None:
    first = check_flags("sglang", version, AS_FOUND)[0]
    assert first.severity == "error"
    assert (first.flag, first.instead) == ("mamba-scheduler-strategy", "mamba-radix-cache-strategy")
    assert first.sentence == f"sglang {version} does not know --mamba-scheduler-strategy any more and exits with code 2"
    assert first.remedy == "--mamba-radix-cache-strategy is its name now"


def test_while_both_names_are_taken_the_old_one_is_a_note() -> None:
    (note,) = [f for f in check_flags("sglang", "0.5.15", AS_FOUND) if f.flag == "mamba-scheduler-strategy"]
    assert (note.severity, note.instead) == ("note", "mamba-radix-cache-strategy")


def test_a_name_that_is_too_new_is_mapped_back() -> None:
    (error,) = check_flags("sglang", "0.5.11", {"mamba-radix-cache-strategy": "extra_buffer"})
    assert (error.severity, error.instead) == ("error", "mamba-scheduler-strategy")
    mapped, notes = renamed("sglang", "0.5.11", {"mamba-radix-cache-strategy": "extra_buffer"})
    assert mapped == {"mamba-scheduler-strategy": "extra_buffer"}
    assert [note.severity for note in notes] == ["note"]


def test_renamed_flags_keep_their_values_and_leave_nothing_to_complain_about() -> None:
    mapped, notes = renamed("sglang", "0.5.23", AS_FOUND)
    assert mapped["mamba-radix-cache-strategy"] == "extra_buffer"
    assert len(notes) == 1
    assert said(check_flags("sglang", "0.5.23", mapped), "error") == []


def test_a_removed_flag_without_successor() -> None:
    flags: dict[str, Value] = {"disable-piecewise-cuda-graph": True}
    assert check_flags("sglang", "0.5.11", flags) == []
    assert said(check_flags("sglang", "0.5.17", flags), "warn") == [
        "--disable-piecewise-cuda-graph may be gone in sglang 0.5.17: 0.5.11 has it, 0.5.23 has not"
    ]
    assert said(check_flags("sglang", "0.5.17", flags, {"--disable-piecewise-cuda-graph"}), "warn") == []
    assert len(said(check_flags("sglang", "0.5.23", flags), "error")) == 1


KNOWN = {
    "--max-mamba-cache-size",
    "--max-running-requests",
    "--cuda-graph-max-bs-decode",
    "--cuda-graph-max-bs-prefill",
}


def test_an_unknown_flag_is_told_the_nearest_name() -> None:
    (error,) = check_flags("sglang", "0.5.23", {"mamba-cache-size": 80}, KNOWN)
    assert error.sentence == "--mamba-cache-size is no flag of sglang 0.5.23"
    assert error.remedy == "did you mean --max-mamba-cache-size?"


def test_a_beginning_counts_where_it_fits_one_flag_only() -> None:
    (note,) = check_flags("sglang", "0.5.23", {"max-run": 8}, KNOWN)
    assert (note.severity, note.sentence) == ("note", "--max-run is short for --max-running-requests")
    (error,) = check_flags("sglang", "0.5.23", {"cuda-graph-m": 8}, KNOWN)
    assert error.sentence.startswith("--cuda-graph-m could be --cuda-graph-max-bs-decode, --cuda-graph-max-bs-prefill")


def test_an_unknown_flag_that_is_like_none() -> None:
    (error,) = check_flags("vllm", "0.33.0", {"zzz": 1}, {"--seed"})
    assert error.remedy == "see the flags of vllm 0.33.0 with --help"
    assert nearest("max-num-seq", {"max-num-seqs", "seed"}) == "max-num-seqs"


def test_what_a_replica_gets_from_its_place_is_refused() -> None:
    (error,) = check_flags("sglang", "0.5.11", {"port": 30000})
    assert error.sentence == "--port: each replica gets its own"


@pytest.mark.parametrize(
    ("flags", "severity", "part"),
    [
        ({"mamba-scheduler-strategy": "extra_buffer", "disable-radix-cache": True}, "error", "refuses to start"),
        ({"speculative-algorithm": "EAGLE", "mamba-scheduler-strategy": "no_buffer"}, "error", "refuses hybrid"),
        ({"speculative-algorithm": "EAGLE", "speculative-num-draft-tokens": 4}, "error", "an assertion"),
        ({"speculative-algorithm": "EAGLE", "speculative-num-steps": 3}, "error", "a comparison with nothing"),
        ({"speculative-eagle-topk": 4, "attention-backend": "trtllm_mha"}, "error", "top 1 only"),
        ({"speculative-eagle-topk": 4}, "warn", "overlapped scheduling"),
        ({"dp-size": 7}, "warn", "one bad GPU takes all"),
        ({"mamba-ssm-dtype": "bfloat16"}, "note", "changes the data"),
    ],
)
def test_contradictions(flags: dict[str, Value], severity: str, part: str) -> None:
    assert any(part in sentence for sentence in said(check_flags("sglang", "0.5.11", flags), severity))


@pytest.mark.parametrize(("tokens", "warned"), [(4, False), (5, True), ("4", False)])
def test_top_1_verifies_steps_and_one(tokens: Value, warned: bool) -> None:
    flags: dict[str, Value] = {
        "speculative-algorithm": "EAGLE",
        "speculative-num-steps": 3,
        "speculative-eagle-topk": 1,
        "speculative-num-draft-tokens": tokens,
    }
    sentence = (
        "--speculative-num-draft-tokens 5 with 3 steps and top 1: the engine verifies steps + 1 tokens whatever is said"
    )
    assert (sentence in said(check_flags("sglang", "0.5.11", flags), "warn")) is warned


def test_drafts_and_prefix_cache_are_an_advisory() -> None:
    found = advisories("sglang", "0.5.11", AS_FOUND)
    assert any("vllm #43559" in finding.sentence for finding in found)
    assert not any(
        "43559" in f.sentence for f in advisories("sglang", "0.5.11", {**AS_FOUND, "disable-radix-cache": True})
    )
    mtp: dict[str, Value] = {"speculative-config": '{"method":"qwen3_5_mtp","num_speculative_tokens":3}'}
    assert [f.remedy for f in advisories("vllm", "0.33.0", mtp)] == ["--no-enable-prefix-caching"]
    assert advisories("vllm", "0.33.0", {**mtp, "no-enable-prefix-caching": True}) == []


def test_the_environment_counts() -> None:
    env = {"SGLANG_ENABLE_SPEC_V2": "1"}
    (old,) = advisories("sglang", "0.5.11", {}, env)
    assert old.sentence == "SGLANG_ENABLE_SPEC_V2=1: is the default"
    (new,) = advisories("sglang", "0.5.23", {}, env)
    assert new.sentence.startswith("SGLANG_ENABLE_SPEC_V2: is unknown here")
    (mixed,) = advisories("sglang", "0.5.23", {}, {"PROMETHEUS_MULTIPROC_DIR": "/x"})
    assert (mixed.severity, mixed.kind) == ("warn", "metrics")


def test_what_the_drive_honours_is_known_and_not_said() -> None:
    honoured = {rule.sign for rule in rules("sglang", "0.5.11") if rule.honoured}
    assert "many requests cancelled at once" in honoured
    assert "HTTP 200" in honoured
    assert not honoured & {finding.sentence.split(":")[0] for finding in advisories("sglang", "0.5.11", AS_FOUND)}
    assert not any(rule.sign == "many requests cancelled at once" for rule in rules("sglang", "0.5.14"))


@pytest.mark.parametrize("engine", ["sglang", "vllm", "llamacpp"])
def test_every_rule_has_its_four_parts(engine: str) -> None:
    book = list(rules(engine, "0.5.11"))
    assert book
    assert all(rule.sign and rule.consequence and rule.remedy and rule.kind for rule in book)


@pytest.mark.parametrize("path", sorted(PROFILES.glob("*.toml")), ids=lambda path: path.stem)
def test_no_shipped_profile_is_in_error_on_its_own_version(path: Path) -> None:
    table = tomllib.loads(path.read_text())
    parent = table.get("extends")
    if parent and (PROFILES / f"{parent}.toml").is_file():
        under = tomllib.loads((PROFILES / f"{parent}.toml").read_text())
        table = {**under, **table, "flags": {**under.get("flags", {}), **table.get("flags", {})}}
    version = table.get("engine_version", "0.5.11")
    assert said(check_flags("sglang", version, table.get("flags", {})), "error") == []
