"""Explanations on trial: do the words that a method names really make the answer?

A method gives each word of a text a score; the words are ranked by it and masked one after the
other, each piece by [MASK].

    deletion         masked from most to least important: a good ranking makes the answer fall early
    insertion        all masked, then shown from most to least important: it comes back early
                                                     Petsiuk et al. 2018, arXiv 1806.07421
    comprehensiveness, sufficiency                   DeYoung et al. 2019 (ERASER), arXiv 1911.03429
                     what the probability loses when the first 10, 20 and 50 % of the words are
                     masked (more is better), and when only they are shown (less is better)

Words are the space-separated words (어절) of the text; a word has the sum of the scores of its
pieces, [CLS] and [SEP] are left out. ERASER takes words away; here they are masked, so that every
place stays what it was. A random ranking is the control.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bert.classifier import EmotionClassifier
from bert.explain import relevance, rollout, saliency, value_weighted
from bert.explain.integrated_gradients import integrated_gradients
from bert.explain.occlusion import logits_of, masked, without_each_word
from bert.explain.target import Target
from bert.explain.words import sum_to_words, text_words

BINS = (0.1, 0.2, 0.5)  # shares of the words, rounded up to whole words
# What is measured, and whether more of it is better.
MEASURES = {"deletion": False, "insertion": True, "deletion_margin": False,
            "insertion_margin": True, "comprehensiveness": True, "sufficiency": False}
WordScores = Callable[[EmotionClassifier, str, Target], np.ndarray]


# ---------------------------------------------------------------------------------- the trial


@dataclass(frozen=True)
class Trial:
    """The answer while words are masked and shown; both curves over the share of the words."""

    shares: np.ndarray                  # (K,) from 0 to 1; K is W + 1 if no word is passed over
    deletion: np.ndarray                # (K,) probability of the target
    insertion: np.ndarray               # (K,)
    deletion_margin: np.ndarray         # (K,) logit margin of the target
    insertion_margin: np.ndarray        # (K,)

    @property
    def comprehensiveness(self) -> np.ndarray:
        """What goes when the first words are masked, for each bin: (3,)."""
        return self.deletion[0] - self.deletion[self._bins()]

    @property
    def sufficiency(self) -> np.ndarray:
        """What goes when only the first words are shown, for each bin: (3,)."""
        return self.insertion[-1] - self.insertion[self._bins()]

    def measures(self) -> dict[str, float]:
        """One number each: the areas under the curves, the means over the bins."""
        areas = {name: float(np.trapezoid(getattr(self, name), self.shares)) for name in
                 ("deletion", "insertion", "deletion_margin", "insertion_margin")}
        return {**areas, "comprehensiveness": float(self.comprehensiveness.mean()),
                "sufficiency": float(self.sufficiency.mean())}

    @property
    def gap(self) -> float:
        """The area between the two curves: one number for how good the ranking is."""
        return float(np.trapezoid(self.insertion - self.deletion, self.shares))

    def _bins(self) -> np.ndarray:
        return np.searchsorted(self.shares, np.array(BINS) - 1e-9)


def judge(classifier: EmotionClassifier, text: str, target: Target, scores: np.ndarray) -> Trial:
    """Both curves of a ranking; of two words with the same score the earlier one comes first."""
    return judge_all(classifier, text, target, [scores])[0]


def judge_all(classifier: EmotionClassifier, text: str, target: Target,
              rankings: Sequence[np.ndarray], most_steps: int | None = None) -> list[Trial]:
    """Many rankings of the words of one text; what two of them mask alike is run once.

    With `most_steps` the curves of a long text take several words at a time. Ten steps lead through
    the bins, so that only the areas are approximations then.
    """
    encoding = classifier.encode(text)
    words = [places for _, places in text_words(encoding)]
    steps = min(most_steps or len(words), len(words))
    counts = -(-np.arange(steps + 1) * len(words) // steps)                          # (K,)
    runs: dict[frozenset[int], int] = {}  # the masked places, and the row of their logits
    found: list[list[int]] = []
    for scores in rankings:
        if len(scores) != len(words):
            raise ValueError(f"{len(scores)} scores for {len(words)} words")
        ranked = [words[i] for i in np.argsort(-np.asarray(scores), kind="stable")]
        hidden = [frozenset(sum(part, [])) for part in (
            *(ranked[:count] for count in counts), *(ranked[count:] for count in counts))]
        found.append([runs.setdefault(places, len(runs)) for places in hidden])      # 2K
    logits = logits_of(classifier, [masked(classifier, encoding.ids, tuple(places))
                                    for places in runs])                             # (R, C)
    probability, margin = target.probability(logits).numpy(), target.margin(logits).numpy()
    return [Trial(counts / len(words), *probability[rows].reshape(2, -1),
                  *margin[rows].reshape(2, -1)) for rows in found]


def beaten(trial: Trial, others: Sequence[Trial]) -> float:
    """The share of other rankings of the text that a ranking is better than; a draw is half."""
    gaps = np.array([other.gap for other in others])
    return float(((gaps < trial.gap - 1e-9).mean() + (gaps <= trial.gap + 1e-9).mean()) / 2)


# ---------------------------------------------------------------------------------- the methods


@dataclass(frozen=True)
class Method:
    """A way to score words. Cheap: one run forward, at most one backward; dear: many."""

    scores: WordScores
    is_cheap: bool


def random_scores(classifier: EmotionClassifier, text: str, target: Target,
                  seed: int = 0) -> np.ndarray:
    """Scores by chance; the same for the same text and seed."""
    rng = np.random.default_rng([seed, zlib.crc32(text.encode("utf-8", "replace"))])
    return rng.random(len(text_words(classifier.encode(text))))


def read_by_pooler(classifier: EmotionClassifier, matrix: np.ndarray) -> np.ndarray:
    """The row that the answer is read from: that of [CLS], or the mean of all. (T, T) -> (T,)."""
    return matrix.mean(axis=0) if classifier.config.pooling == "mean" else matrix[0]


def _attention(classifier: EmotionClassifier, text: str, target: Target) -> np.ndarray:
    """The weights of the last layer, the mean of its heads."""
    encoding, attentions = classifier.attentions(text)
    return sum_to_words(encoding, read_by_pooler(classifier, attentions[-1].mean(axis=0)))


def _rollout(classifier: EmotionClassifier, text: str, target: Target) -> np.ndarray:
    encoding, attentions = classifier.attentions(text)
    return sum_to_words(encoding, read_by_pooler(classifier, rollout.rollout(attentions)))


def _value_weighted(classifier: EmotionClassifier, text: str, target: Target) -> np.ndarray:
    """‖α f(x)‖ of the last layer, the sum of its heads."""
    cache = classifier.run_with_cache(text)
    norms = value_weighted.norms(classifier, cache)[-1].sum(axis=0)                  # (T, T)
    return sum_to_words(cache.encoding, read_by_pooler(classifier, norms))


def _alti(classifier: EmotionClassifier, text: str, target: Target) -> np.ndarray:
    cache = classifier.run_with_cache(text)
    return sum_to_words(cache.encoding,
                        read_by_pooler(classifier, rollout.alti(classifier, cache)))


def _gradient_x_input(classifier: EmotionClassifier, text: str, target: Target) -> np.ndarray:
    return sum_to_words(classifier.encode(text),
                        saliency.gradient_x_input(classifier, text, target))


def _attention_x_gradient(classifier: EmotionClassifier, text: str, target: Target) -> np.ndarray:
    carried = saliency.attention_x_gradient(classifier, text, target)
    return sum_to_words(classifier.encode(text), saliency.looked_at(carried))


def _attn_lrp(classifier: EmotionClassifier, text: str, target: Target) -> np.ndarray:
    return sum_to_words(classifier.encode(text), relevance.relevance(classifier, text, target))


def _integrated_gradients(classifier: EmotionClassifier, text: str, target: Target) -> np.ndarray:
    found = integrated_gradients(classifier, text, target)
    return sum_to_words(found.encoding, found.values)


def _deleted(classifier: EmotionClassifier, text: str, target: Target) -> np.ndarray:
    return without_each_word(classifier, text, target, delete=True)


METHODS: dict[str, Method] = {
    "random": Method(random_scores, is_cheap=True),
    "attention": Method(_attention, is_cheap=True),
    "value_weighted": Method(_value_weighted, is_cheap=True),
    "rollout": Method(_rollout, is_cheap=True),
    "alti": Method(_alti, is_cheap=True),
    "attention_x_gradient": Method(_attention_x_gradient, is_cheap=True),
    "gradient_x_input": Method(_gradient_x_input, is_cheap=True),
    "attn_lrp": Method(_attn_lrp, is_cheap=True),
    "integrated_gradients": Method(_integrated_gradients, is_cheap=False),
    "occlusion_mask": Method(without_each_word, is_cheap=False),
    "occlusion_delete": Method(_deleted, is_cheap=False),
}
