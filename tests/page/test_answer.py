"""One answer as the browser gets it."""

import json

import numpy as np

from bert.explain.attention import rollout
from bert.page.answer import answer_data
from bert.studies.base import unpack


def test_the_payload_holds_every_head_and_the_rollout(encoding, prediction):
    made = answer_data(encoding, prediction.attentions)
    size = len(encoding.pieces)
    stored = unpack(made["matrices"])
    assert stored.shape == (made["layers"] * made["heads"] + 1, size, size)
    np.testing.assert_allclose(stored[:-1].reshape(prediction.attentions.shape),
                               prediction.attentions, atol=0.5 / 255 + 1e-6)
    np.testing.assert_allclose(stored[-1], rollout(prediction.attentions), atol=0.5 / 255 + 1e-6)


def test_the_payload_is_plain_json(encoding, prediction):
    made = answer_data(encoding, prediction.attentions)
    assert json.loads(json.dumps(made)) == made
    assert made["read"] == prediction.text
    assert "".join(made["sources"]) == prediction.text.replace(" ", "")
