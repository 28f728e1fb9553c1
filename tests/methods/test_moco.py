"""MoCo: the ring of keys, the moving average, and what the query meets."""

import torch
from small_cells import pull
from torch.nn import functional as F

from suppression_bench.conformance.toy import Toy
from suppression_bench.methods.moco import MoCo


def test_the_queue_holds_the_last_keys_in_a_ring():
    toy = Toy(MoCo, pull, {"head": [4], "queue": 7, "momentum": 0.5})
    method = toy.build()
    ring, owners, place = [row.tolist() for row in method.queue], [-1] * 7, 0
    counts = []
    batches = [[0, 1, 2], [3, 4, 5], [6, 7, 0], [8, 1, 9], [10, 11, 2], [3, 12, 13]]
    for step, ids in enumerate(batches):
        shown = [ring[i] for i in range(7) if owners[i] not in ids]  # what the loss must have seen in this step
        toy.train(method, [ids], start=step)
        _, keys, more = toy.calls[-1]
        assert more["negatives"].tolist() == shown
        counts.append(len(shown))
        for key, owner in zip(keys.tolist(), ids, strict=True):
            ring[place], owners[place] = key, owner
            place = (place + 1) % 7
        assert method.queue.tolist() == ring and method.queue_ids.tolist() == owners and method.position.item() == place
    assert counts == [7, 7, 6, 7, 7, 7]  # in the third step sample 0 still had a key in the queue
    torch.testing.assert_close(method.queue.norm(dim=1), torch.ones(7))


def test_of_a_batch_larger_than_the_queue_the_end_stays():
    toy = Toy(MoCo, pull, {"head": [4], "queue": 3})
    method = toy.build()
    toy.train(method, [[0, 1, 2, 3, 4]])
    assert sorted(method.queue_ids.tolist()) == [2, 3, 4]
    assert sorted(method.queue.tolist()) == sorted(toy.calls[0][1][2:].tolist())


def test_mocos_key_encoder_is_a_moving_average_that_starts_equal():
    toy = Toy(MoCo, pull, {"head": [6, 4], "momentum": 0.75})
    method = toy.build()
    moving = [*method.key_encoder.parameters(), *method.key_head.parameters()]
    online = [*method.encoder.parameters(), *method.head.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(moving, online, strict=True))
    before = [parameter.clone() for parameter in moving]
    toy.train(method, [[0, 1, 2, 3]], rate=0.1)
    for old, now, new in zip(before, online, moving, strict=True):
        torch.testing.assert_close(new, 0.75 * old + 0.25 * now)
    assert not torch.equal(before[0], moving[0])


def test_mocos_query_is_view_one_and_its_key_view_two_of_the_slow_network():
    toy = Toy(MoCo, pull, {"head": [6, 4]})
    method, batch = toy.build(), toy.batch([0, 1, 2, 3])
    with torch.no_grad():
        for parameter in method.key_encoder.parameters():
            parameter.mul_(1.5)
    method.loss(batch)
    query, key, _ = toy.calls[0]
    torch.testing.assert_close(query, F.normalize(method.head(method.encoder(batch.views[0])), dim=1))
    torch.testing.assert_close(key, F.normalize(method.key_head(method.key_encoder(batch.views[1])), dim=1))
