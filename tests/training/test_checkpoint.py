"""Checkpoints as files: the last two, whole or not at all, tensors only."""

import hashlib
import io
import pickle

import pytest
import torch

from generators.dataset import UserError
from suppression_bench.training import loop

STATE = {"weights": torch.arange(4.0), "inner": {"list": [1, 2], "text": "x"}}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_of_the_last_two_comes_back(tmp_path):
    assert loop.load_checkpoint(tmp_path, {}) is None
    for step in (1, 9, 10, 100):
        loop.save_checkpoint(tmp_path, step, {**STATE, "step": step}, {"a": 1})
    assert names(tmp_path) == ["checkpoint-00000010.pt", "checkpoint-00000100.pt"]
    found = loop.load_checkpoint(tmp_path, {"a": 1})
    assert found["step"] == 100 and found["state"]["step"] == 100 and found["state"]["inner"] == STATE["inner"]
    assert torch.equal(found["state"]["weights"], STATE["weights"])


def test_a_failed_write_leaves_the_others_whole(tmp_path, monkeypatch):
    loop.save_checkpoint(tmp_path, 1, STATE, {})
    before = (tmp_path / "checkpoint-00000001.pt").read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(loop.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        loop.save_checkpoint(tmp_path, 2, STATE, {})
    monkeypatch.undo()
    assert (tmp_path / "checkpoint-00000001.pt").read_bytes() == before
    assert loop.load_checkpoint(tmp_path, {})["step"] == 1


def test_differences_are_named_missing_and_new_fields_too(tmp_path):
    loop.save_checkpoint(tmp_path, 1, STATE, {"kept": 1, "gone": 2, "changed": [1]})
    with pytest.raises(UserError) as caught:
        loop.load_checkpoint(tmp_path, {"kept": 1, "new": 3, "changed": [2]})
    text = str(caught.value)
    for part in ("gone: 2 then, None now", "new: None then, 3 now", "changed: [1] then, [2] now"):
        assert part in text
    assert "kept" not in text


def test_a_pickled_payload_is_not_run(tmp_path):
    class Payload:
        def __reduce__(self):
            return (open, (str(tmp_path / "owned"), "w"))

    buffer = io.BytesIO()
    torch.save({"step": 1, "state": Payload(), "identity": {}}, buffer, pickle_module=pickle)
    body = buffer.getvalue()
    (tmp_path / "checkpoint-00000001.pt").write_bytes(hashlib.sha256(body).digest() + body)
    with pytest.raises(pickle.UnpicklingError):
        loop.load_checkpoint(tmp_path, {})
    assert not (tmp_path / "owned").exists()


def test_clear_removes_checkpoints_and_nothing_else(tmp_path):
    loop.save_checkpoint(tmp_path, 1, STATE, {})
    for name in ("checkpoint.17.tmp", "result.json", "encoder.safetensors"):
        (tmp_path / name).write_text("")
    loop.clear_checkpoints(tmp_path)
    assert names(tmp_path) == ["encoder.safetensors", "result.json"]
