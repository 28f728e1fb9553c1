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


@pytest.mark.slow
def test_every_check_is_shown_and_a_broken_file_fails_with_its_reason(tmp_path, capsys):
    for name, text in (("deaf", IGNORES_TEMPERATURE), ("idle", NO_GRADIENT)):
        (tmp_path / f"{name}.py").write_text(text)
    assert main(["conformance", "nt_xent", "untrained", str(tmp_path / "deaf.py"), str(tmp_path / "idle.py")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any("nt-xent: 14 of 14 hold" in line for line in lines)
    assert any("untrained: 4 of 4 hold" in line for line in lines)
    failed = [line for line in lines if "FAIL" in line]
    assert any("temperature" in line for line in failed) and any("gradient" in line for line in failed)


@pytest.mark.parametrize("name, part", [("nt_xnet", "did you mean 'nt-xent'?"), ("./none.py", "no such file")])
def test_wrong_names_are_sentences(name, part, capsys):
    assert main(["conformance", name]) == 2
    assert part in capsys.readouterr().err
