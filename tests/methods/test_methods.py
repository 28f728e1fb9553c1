"""Every method on real encoders and data: a gradient for every parameter, flags that tell the truth."""

import pytest
import torch
from small_cells import built

from generators import catalog
from suppression_bench.method import Batch, Output

METHODS = [name for name in catalog.names("suppression_bench.methods") if name != "untrained"]


@pytest.mark.parametrize("encoder", ["randbit_conv", "resnet18"])
@pytest.mark.parametrize("name", METHODS)
def test_every_encoder_parameter_gets_a_gradient(name, encoder, randbit, batch_of):
    method, data = built(name, randbit, data__bits=2, encoder__name=encoder)
    output = method.train().loss(batch_of(data, method))
    assert isinstance(output, Output) and output.loss.shape == () and torch.isfinite(output.loss)
    assert output.features.shape == (8, method.encoder.width)
    output.loss.backward()
    for parameter_name, parameter in method.encoder.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, parameter_name


@pytest.mark.parametrize("name", METHODS)
def test_flags_tell_the_truth(name, randbit, batch_of):
    method, data = built(name, randbit, data__bits=2)
    batch = batch_of(data, method)
    assert method.trains and len(batch.views) == method.views >= 1
    blind = Batch(batch.views, batch.ids, None)
    if method.needs_labels:
        assert method.info.targets
        with pytest.raises(KeyError):
            method.loss(blind)
    else:
        assert method.info.targets == {}
        method.loss(blind)
