from itertools import islice

import numpy as np

from bert.training.batching import PlannedData, batches_by_length


def test_batches_hold_similar_lengths_and_every_example_once():
    lengths = np.random.default_rng(0).integers(4, 60, 1_000)
    batches = batches_by_length(lengths, 512, np.random.default_rng(1))
    assert sorted(np.concatenate(batches)) == list(range(1_000))
    assert all(lengths[batch].max() * len(batch) <= 512 for batch in batches)
    padding = sum((lengths[b].max() - lengths[b]).sum() for b in batches)
    assert padding < 0.02 * lengths.sum()


def test_an_example_longer_than_a_batch_stands_alone():
    batches = batches_by_length(np.array([3, 50, 3]), 8, np.random.default_rng(0))
    assert sorted(len(batch) for batch in batches) == [1, 2]


class Numbers(PlannedData):
    """Epoch n has n + 2 batches."""

    def __init__(self) -> None:
        self.plans: list[int] = []

    def plan(self, epoch: int) -> list[int]:
        self.plans.append(epoch)
        return list(range(10 * epoch, 11 * epoch + 2))

    def batch(self, epoch: int, number: int) -> int:
        return self.planned(epoch)[number]


def test_batches_go_on_for_ever_from_anywhere_and_each_epoch_is_planned_once():
    data = Numbers()
    assert list(islice(data.batches(0, 1), 5)) == [
        (0, 1, 1), (1, 0, 10), (1, 1, 11), (1, 2, 12), (2, 0, 20)]
    assert data.plans == [0, 1, 2]


def test_a_fixed_number_of_batches_leaves_out_or_repeats():
    data = Numbers()
    data.num_batches = 3
    assert [[data.batch(epoch, i) for i in range(3)] for epoch in range(3)] == [
        [0, 1, 0], [10, 11, 12], [20, 21, 22]]
