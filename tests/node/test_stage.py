import hashlib
import json
import os
import tracemalloc
from pathlib import Path

import pytest

from sevenfold.errors import NodeError
from sevenfold.node.stage import Room, clean, left_over, refusal, size_of, stage

GB = 10**9
PLENTY = Room(free=10**15)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "slow" / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "empty").write_bytes(b"")
    (folder / "sub" / "weights.safetensors").write_bytes(bytes(range(256)) * 40)
    return folder


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "stage.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    ("room", "said"),
    [
        (Room(free=int(0.064 * GB)), "are needed and 0.06 GiB are free"),
        (Room(free=40 * GB, memory=1200 * GB, stale=("old.partial",)), "unfinished copies lie there: old.partial"),
        (Room(free=900 * GB, memory=50 * GB), "it lies in RAM"),
        (Room(free=900 * GB, memory=1200 * GB), None),
    ],
)
def test_l06_what_does_not_fit_is_refused_with_the_reason(room: Room, said: str | None) -> None:
    why = refusal(54 * GB, room)
    assert why is None if said is None else said in (why or "")


def test_the_copy_is_whole_and_the_second_time_it_is_there(model: Path, tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    local = stage(model, tmp_path / "ram", PLENTY, lambda done, total: heard.append((done, total)))
    assert content(local) == content(model)
    assert heard[-1] == (10242, 10242)
    (model / "sub" / "weights.safetensors").rename(tmp_path / "away")
    (tmp_path / "away").rename(model / "sub" / "weights.safetensors")
    assert stage(model, tmp_path / "ram", Room(free=0)) == local


def test_not_one_byte_is_copied_where_it_does_not_fit(model: Path, tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="does not fit"):
        stage(model, tmp_path / "ram", Room(free=100))
    assert list((tmp_path / "ram").glob("*.partial")) == []


def test_a_changed_model_is_another_copy(model: Path, tmp_path: Path) -> None:
    first = stage(model, tmp_path / "ram", PLENTY)
    (model / "config.json").write_text('{"a": 1}')
    assert stage(model, tmp_path / "ram", PLENTY) != first


def killed_halfway(model: Path, target: Path) -> Path:
    """What a stager that dies in the middle leaves: whole chunks in the journal, a torn line, a torn chunk."""
    whole = stage(model, target, PLENTY)
    partial = target / f"{whole.name}.partial"
    whole.rename(partial)
    (partial / "stage.json").unlink()
    weights = (partial / "sub" / "weights.safetensors").read_bytes()
    lines = []
    for at in range(0, 5 * 1024, 1024):
        piece = weights[at : at + 1024]
        digest = hashlib.blake2b(piece, digest_size=16).hexdigest()
        lines.append(json.dumps({"file": "sub/weights.safetensors", "offset": at, "size": 1024, "digest": digest}))
    (partial / "journal").write_text("\n".join(lines) + '\n{"file": "sub/wei')
    torn = weights[:4096] + b"x" * 100
    (partial / "sub" / "weights.safetensors").write_bytes(torn)
    return partial


def test_what_a_killed_stager_finished_is_verified_and_not_fetched_again(model: Path, tmp_path: Path) -> None:
    """The source's bytes change behind the stager's back: what it kept shows the old ones, what it fetched the new."""
    target = tmp_path / "ram"
    killed_halfway(model, target)
    weights = model / "sub" / "weights.safetensors"
    old, stamp = weights.read_bytes(), weights.stat()
    weights.write_bytes(bytes(len(old)))
    os.utime(weights, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    copied = (stage(model, target, PLENTY, chunk=1024) / "sub" / "weights.safetensors").read_bytes()
    assert copied[:4096] == old[:4096]
    assert copied[4096:] == bytes(len(old) - 4096)  # the chunk at 4096 was journalled, but its bytes were torn


def test_left_overs_of_a_crash_are_named_and_cleaned(model: Path, tmp_path: Path) -> None:
    partial = killed_halfway(model, tmp_path / "ram")
    assert left_over(tmp_path / "ram") == (partial,)
    assert clean(tmp_path / "ram") == (partial,)
    assert left_over(tmp_path / "ram") == ()


def test_the_links_of_a_hub_cache_become_files(model: Path, tmp_path: Path) -> None:
    """models--ORG--NAME/snapshots/COMMIT holds links into blobs."""
    snapshot = tmp_path / "snapshots" / "abc"
    (snapshot / "sub").mkdir(parents=True)
    for name in ("config.json", "empty", "sub/weights.safetensors"):
        (snapshot / name).symlink_to(model / name)
    local = stage(snapshot, tmp_path / "ram", PLENTY)
    assert content(local) == content(model)
    assert not any(path.is_symlink() for path in local.rglob("*"))
    assert size_of(snapshot) == 10242


def test_a_single_file_is_staged_too(model: Path, tmp_path: Path) -> None:
    source = model / "sub" / "weights.safetensors"
    local = stage(source, tmp_path / "ram", PLENTY)
    assert (local.name, local.read_bytes()) == (source.name, source.read_bytes())
    assert stage(source, tmp_path / "ram", Room(free=0)) == local


def test_a_file_larger_than_memory_is_never_held_whole(tmp_path: Path) -> None:
    """Chunk by chunk: the peak of what Python holds stays at the chunks in flight, whatever the file's size."""
    source = tmp_path / "big"
    source.mkdir()
    (source / "weights").write_bytes(bytes(8 << 20))
    tracemalloc.start()
    stage(source, tmp_path / "ram", PLENTY, chunk=1 << 16)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20
