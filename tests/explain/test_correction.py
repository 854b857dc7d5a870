"""The copy that learns a visitor's corrections."""

import re

import torch

from bert.explain import correction
from bert.explain.correction import Adam


def test_only_the_upper_part_of_the_copy_learns(classifier, monkeypatch):
    monkeypatch.setattr(correction, "UPPER_LAYERS", 1)
    copy = correction.trainable_copy(classifier.model)
    learning = {name for name, weight in copy.named_parameters() if weight.requires_grad}
    assert learning == {name for name, _ in copy.named_parameters()
                        if re.match(r"bert\.encoder\.layer\.1\.|bert\.pooler|classifier", name)}
    own = dict(classifier.model.named_parameters())
    for name, weight in copy.named_parameters():  # what does not learn takes no memory
        assert (weight.data_ptr() == own[name].data_ptr()) == (name not in learning)
    assert all(weight.requires_grad for weight in classifier.model.parameters())


def test_the_steps_are_those_of_adam():
    ours = torch.linspace(-1.0, 1.0, 6).reshape(2, 3).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    adam, expected = Adam([ours], 0.01), torch.optim.Adam([theirs], lr=0.01)
    for step in range(4):
        adam.step(((ours - step) ** 3).sum())
        expected.zero_grad()
        ((theirs - step) ** 3).sum().backward()
        expected.step()
    torch.testing.assert_close(ours, theirs)
