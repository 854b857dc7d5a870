"""The logit lens: the classifier read out after every layer (nostalgebraist 2020)."""

import numpy as np
import torch

from bert.classifier import EmotionClassifier


@torch.inference_mode()
def lens(classifier: EmotionClassifier, hidden_states: np.ndarray) -> np.ndarray:
    """The class probabilities read after each layer: (L + 1, T, E) -> (L + 1, C).

    Pooler and classifier were trained on the last layer only; on the others this is a probe.
    """
    model = classifier.needs_classifier()
    states = torch.from_numpy(np.ascontiguousarray(hidden_states))                   # (L + 1, T, E)
    states = torch.cat([model.bert.encoder.final_norm(states[:-1]), states[-1:]])
    logits = model.classifier(model.bert.pooler(states, None))                       # (L + 1, C)
    return logits.softmax(dim=-1).numpy()


def settled_layer(probabilities: np.ndarray) -> int:
    """From which layer on the last layer's answer leads.

    From layer 1: at layer 0 [CLS] has looked at nothing and is the same for every text.
    """
    leaders = probabilities.argmax(axis=1)                                           # (L + 1,)
    return int(np.flatnonzero(leaders != leaders[-1]).max(initial=0)) + 1
