"""Encoders: shapes and sizes by hand, the stem by the picture's side, any number of channels."""

import itertools

import pytest
import torch
from torch import nn

from generators.dataset import UserError
from suppression_bench.encoder import Encoder, mlp
from suppression_bench.encoders.conv4 import Conv4
from suppression_bench.encoders.randbit_conv import RandBitConv
from suppression_bench.encoders.raw_pixels import RawPixels
from suppression_bench.encoders.resnet18 import ResNet18

ENCODERS = [Conv4, RandBitConv, RawPixels, ResNet18]


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("channels", [1, 11])
def test_any_number_of_channels(encoder, channels):
    net = encoder(28, channels).eval()
    assert isinstance(net, Encoder)
    found = net(torch.rand(2, channels, 28, 28))
    assert found.shape == (2, net.width) and torch.isfinite(found).all()
    changed = torch.rand(1, channels, 28, 28).repeat(2, 1, 1, 1)
    changed[1, -1] += 1  # the last channel counts
    first, second = net(changed)
    assert not torch.equal(first, second)


def test_randbit_conv_is_the_notebooks():
    net = RandBitConv(28, 11)
    shapes = []
    for layer in net.convolutions:
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(lambda module, given, out: shapes.append(tuple(out.shape[1:])))
    net(torch.rand(2, 11, 28, 28))
    assert shapes == [(32, 13, 13), (64, 6, 6), (64, 2, 2)]
    assert net.dense[0].in_features == 256 and net.width == 128
    kernels = 9 * 11 * 32 + 9 * 32 * 64 + 9 * 64 * 64 + 256 * 128
    assert sum(p.numel() for p in net.parameters()) == kernels + 2 * (32 + 64 + 64 + 128)
    assert all(
        getattr(layer, "bias", None) is None for layer in net.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))
    )
    norms = [layer for layer in net.modules() if isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d))]
    assert [(norm.momentum, norm.eps) for norm in norms] == [(0.01, 1e-3)] * 4
    assert [norm.num_features for norm in norms] == [32, 64, 64, 128]
    assert [(layer.stride, layer.padding) for layer in net.modules() if isinstance(layer, nn.Conv2d)] == [
        ((2, 2), (0, 0))
    ] * 3
    assert net(torch.rand(4, 11, 28, 28)).min() == 0  # a ReLU is the last word


def test_randbit_conv_takes_other_sides():
    assert RandBitConv(32, 1)(torch.rand(2, 1, 32, 32)).shape == (2, 128)
    assert RandBitConv(112, 1)(torch.rand(2, 1, 112, 112)).shape == (2, 128)


@pytest.mark.parametrize(
    ("side", "kernel", "stride", "pooled"), [(28, 3, 1, False), (32, 3, 1, False), (33, 7, 2, True), (64, 7, 2, True)]
)
def test_resnet18s_stem_goes_by_the_side(side, kernel, stride, pooled):
    net = ResNet18(side, 4)
    stem = net.net.conv1
    assert stem.kernel_size == (kernel, kernel) and stem.stride == (stride, stride) and stem.bias is None
    assert stem.padding == (kernel // 2, kernel // 2)
    assert isinstance(net.net.maxpool, nn.MaxPool2d) == pooled
    assert net.width == 512
    # torchvision's 11,689,512 without classifier (513,000), its stem of 3 channels (9,408) replaced by ours.
    assert sum(p.numel() for p in net.parameters()) == 11_689_512 - 513_000 - 9_408 + kernel * kernel * 4 * 64


@pytest.mark.parametrize("width", [128, 32])
def test_conv4_by_hand(width):
    net, filters = Conv4(56, 2, width=width), [2, width // 8, width // 4, width // 2, width]
    pairs = list(itertools.pairwise(filters))
    assert sum(p.numel() for p in net.parameters()) == sum(9 * a * b + 2 * b for a, b in pairs)
    pictures = torch.rand(3, 2, 56, 56)
    last = net.eval().stages(pictures)[-1]
    assert last.shape == (3, width, 4, 4) and last.min() == 0
    torch.testing.assert_close(net(pictures)[1, 5], sum(last[1, 5, y, x] for y in range(4) for x in range(4)) / 16)


@pytest.mark.parametrize("width", [0, 100, -8])
def test_conv4_refuses_a_width_that_cannot_be_halved_thrice(width):
    with pytest.raises(UserError, match=f"encoder.width {width}: conv4 takes a multiple of 8"):
        Conv4(56, 1, width=width)


def test_raw_pixels_average_to_at_most_28_cells_a_side():
    pictures = torch.rand(2, 3, 112, 112)
    found = RawPixels(112, 3)(pictures).reshape(2, 3, 28, 28)
    torch.testing.assert_close(found, pictures.reshape(2, 3, 28, 4, 28, 4).mean((3, 5)))
    small = torch.rand(2, 2, 20, 20)
    assert torch.equal(RawPixels(20, 2)(small), small.flatten(1))
    assert RawPixels(28, 11).width == 11 * 784 and RawPixels(29, 1).width == 784


def test_a_head_has_norm_and_relu_behind_each_layer_but_the_last():
    head = mlp(128, [256, 64], {"momentum": 0.01, "eps": 1e-3})
    assert [type(layer) for layer in head] == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear]
    assert head[0].weight.shape == (256, 128) and head[3].weight.shape == (64, 256)
    assert head[0].bias is None and head[3].bias is None and (head[1].momentum, head[1].eps) == (0.01, 1e-3)
    assert len(mlp(128, [], {})) == 0
