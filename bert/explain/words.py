"""From pieces to words: the space-separated words (어절) of a text, special tokens left out."""

import numpy as np

from bert.tokenizer import Encoding


def text_words(encoding: Encoding) -> list[tuple[str, list[int]]]:
    """Each word of the text with the places of its pieces; [CLS] and [SEP] are no words."""
    return [(name, places) for name, places in encoding.grouped()
            if encoding.word_ids[places[0]] is not None]


def sum_to_words(encoding: Encoding, values: np.ndarray) -> np.ndarray:
    """Scores of pieces to scores of words: a word has the sum of its pieces. (…, T) -> (…, W)."""
    return np.stack([values[..., places].sum(axis=-1) for _, places in text_words(encoding)],
                    axis=-1)
