"""Batches of one length: almost no padding, and any of them can be made again."""

from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import Any

import numpy as np


def batches_by_length(lengths: np.ndarray, batch_tokens: int,
                      rng: np.random.Generator) -> list[np.ndarray]:
    """Group examples of equal length; the batches in random order."""
    order = np.lexsort((rng.random(len(lengths)), lengths))
    ordered = lengths[order]
    batches, begin = [], 0
    while begin < len(order):
        end = min(begin + max(1, batch_tokens // int(ordered[begin])), len(order))
        end = begin + max(1, min(end - begin, batch_tokens // int(ordered[end - 1])))
        batches.append(order[begin:end])
        begin = end
    rng.shuffle(batches)
    return batches


class PlannedData:
    """Examples whose batches are planned anew for every epoch; only one plan is kept.

    Who sets `num_batches` gets as many in every epoch, so that a number of epochs is a number of
    steps: a batch too many is left out, for one too few the first comes again.
    """

    num_batches: int | None = None
    _epoch: int = -1
    _planned: Sequence[Any] = ()

    def plan(self, epoch: int) -> list[Any]:
        """What `batch` needs to know about each batch of the epoch, in order."""
        raise NotImplementedError

    def batch(self, epoch: int, number: int) -> Any:
        raise NotImplementedError

    def planned(self, epoch: int) -> Sequence[Any]:
        if epoch != self._epoch:
            self._planned = ()  # the old plan goes before the new one is made
            plan = self.plan(epoch)
            self._planned = (plan if self.num_batches is None else
                             list(islice(cycle(plan), self.num_batches)))
            self._epoch = epoch
        return self._planned

    def batches(self, epoch: int, first: int) -> Iterator[tuple[int, int, Any]]:
        """Epoch, number and batch, from batch `first` of an epoch on, for ever."""
        while True:
            for number in range(first, len(self.planned(epoch))):
                yield epoch, number, self.batch(epoch, number)
            epoch, first = epoch + 1, 0
