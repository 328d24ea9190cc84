import json
import struct
from pathlib import Path

import pytest

from sevenfold.node.wholeness import Defect, defects


def shard(path: Path, promised: int, there: int) -> None:
    """A safetensors file whose header promises one tensor of `promised` bytes, followed by `there` bytes."""
    header = json.dumps({"d": {"dtype": "F32", "shape": [promised // 4], "data_offsets": [0, promised]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(there))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Four shards as the index says, all whole."""
    (tmp_path / "config.json").write_text("{}")
    names = [f"model-{i:05d}-of-00004.safetensors" for i in range(1, 5)]
    for name in names:
        shard(tmp_path / name, 16, 16)
    index = {"weight_map": {f"layer.{i}": name for i, name in enumerate(names)}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    return tmp_path


def test_a_whole_model_has_no_defect(model: Path) -> None:
    assert defects(model) == ()


def test_l07_four_defects_in_one_report(model: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 123456\n"
    (model / "model-00001-of-00004.safetensors").write_text(pointer)
    (model / "model-00002-of-00004.safetensors").write_bytes(struct.pack("<Q", 4096) + b"{}")
    (model / "model-00003-of-00004.safetensors").unlink()
    shard(model / "model-00004-of-00004.safetensors", 16, 8)
    assert {defect.file: defect.kind for defect in defects(model)} == {
        "model-00001-of-00004.safetensors": "git_lfs_pointer",
        "model-00002-of-00004.safetensors": "header_longer_than_file",
        "model-00003-of-00004.safetensors": "missing",
        "model-00004-of-00004.safetensors": "data_shorter_than_header_says",
    }


def test_an_index_that_is_none(model: Path) -> None:
    (model / "model.safetensors.index.json").write_text("[]")
    assert defects(model) == (Defect("model.safetensors.index.json", "index_not_json", "no weight_map"),)


def test_an_empty_shard_and_one_whose_header_is_no_json(model: Path) -> None:
    (model / "model-00001-of-00004.safetensors").write_bytes(b"")
    (model / "model-00002-of-00004.safetensors").write_bytes(struct.pack("<Q", 4) + b"abcd")
    kinds = [defect.kind for defect in defects(model)]
    assert kinds == ["empty", "header_not_json"]


def test_weights_that_run_code_are_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"auto_map": {"AutoModel": "modeling.Model"}}))
    (tmp_path / "modeling.py").write_text("")
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04")
    found = {(defect.file, defect.kind) for defect in defects(tmp_path)}
    assert found == {("pytorch_model.bin", "pickle"), ("config.json", "custom_code")}


def test_a_folder_without_anything(tmp_path: Path) -> None:
    assert [defect.kind for defect in defects(tmp_path)] == ["no_config", "no_weights"]
