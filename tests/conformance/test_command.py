"""bench conformance: all of ours hold, a user's broken file fails with its reason, wrong names are sentences."""

import pytest

from suppression_bench.cli import main

IGNORES_TEMPERATURE = '''
"""Squared distance with a temperature that does nothing."""
from torch.nn import functional as F
from suppression_bench.loss import declares

@declares(normalises=True)
def deaf(z1, z2, *, temperature: float = 0.1):
    """Mean squared distance."""
    return (F.normalize(z1, dim=1).float() - F.normalize(z2, dim=1).float()).pow(2).sum(1).mean()
'''
NO_GRADIENT = '''
"""A method that trains nothing of the encoder."""
from suppression_bench.method import Method, Output

class Idle(Method):
    """Its loss never meets the encoder."""

    def __init__(self, encoder, info):
        super().__init__(encoder, info)
        self.offset = __import__("torch").nn.Parameter(__import__("torch").ones(1))

    def loss(self, batch):
        features = self.encoder(batch.views[0])
        return Output(self.offset.pow(2).sum(), features)
'''


@pytest.mark.parametrize("name, text", [("deaf", IGNORES_TEMPERATURE), ("idle", NO_GRADIENT)])
def test_a_broken_file_fails_with_its_reason(name, text, tmp_path, capsys):
    (tmp_path / f"{name}.py").write_text(text)
    assert main(["conformance", str(tmp_path / f"{name}.py")]) == 1
    said = capsys.readouterr().out
    failed = [line for line in said.splitlines() if "FAIL" in line]
    wanted = "temperature" if name == "deaf" else "gradient"
    assert any(wanted in line for line in failed), said


def test_named_ones_show_every_check(capsys):
    assert main(["conformance", "nt_xent", "untrained"]) == 0
    said = capsys.readouterr().out
    assert "nt-xent: 14 of 14 hold" in said and "untrained: 4 of 4 hold" in said and said.count("  pass  ") == 18
    assert "18 of 18 checks hold" in said


@pytest.mark.parametrize("name, part", [("nt_xnet", "did you mean 'nt-xent'?"), ("./none.py", "no such file")])
def test_wrong_names_are_sentences(name, part, capsys):
    assert main(["conformance", name]) == 2
    assert part in capsys.readouterr().err
