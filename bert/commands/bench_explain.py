"""What an explanation costs beside one answer, and where the time of one answer goes."""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bert.classifier import EmotionClassifier
from bert.commands.measuring import (
    Bench,
    Comparison,
    Functions,
    milliseconds,
    runners,
    shuffled_words,
    text_of,
)
from bert.cpu import configure_cpu
from bert.explain.ablation import without_each_head
from bert.explain.faithfulness import METHODS
from bert.explain.patching import patch
from bert.explain.saliency import head_importance
from bert.explain.target import Target
from bert.page.answer import answer_data
from bert.studies.base import Matrix

LENGTHS = (16, 64, 128)
FORWARD = "forward"
EXPLANATIONS = ("head importance", "ablation map", "patching map",
                *(f"word scores, {name}" for name in METHODS))


def explanations(folder: Path, texts: dict[int, tuple[str, str]]) -> Functions:
    """Every explanation of every text; a patching map needs a second one."""
    configure_cpu()
    classifier = EmotionClassifier.load(folder)
    functions: Functions = {}
    for tokens, (text, donor) in texts.items():
        target = Target.leading(classifier, text)
        found: list[Callable[[], object]] = [
            partial(head_importance, classifier, text, target),
            partial(without_each_head.__wrapped__, classifier, text),  # not the one it remembers
            partial(patch, classifier, text, donor),
            *(partial(method.scores, classifier, text, target) for method in METHODS.values())]
        functions |= {(name, tokens): function
                      for name, function in zip(EXPLANATIONS, found, strict=True)}
        functions[FORWARD, tokens] = partial(classifier, text)
    return functions


def bench_explain(bench: Bench) -> Iterator[Comparison]:
    """Each explanation as a ratio to one answer, then the parts of one answer."""
    classifier = bench.classifier()
    lengths = [n for n in LENGTHS if n <= classifier.config.max_position_embeddings]
    texts = {tokens: (text_of(classifier, tokens, shuffled_words(seed=0)),
                      text_of(classifier, tokens, shuffled_words(seed=1))) for tokens in lengths}
    with runners((explanations, bench.checkpoint, texts)) as (runner,):
        for tokens in lengths:
            for name in EXPLANATIONS:
                taken = [(runner.seconds((name, tokens), 1), runner.seconds((FORWARD, tokens), 3))
                         for _ in range(bench.rounds(5))]
                ours, forward = map(milliseconds, zip(*taken, strict=True))
                yield Comparison("model", f"{name}, {tokens} tokens", "one answer", "ms", ours,
                                 forward)
    for tokens in lengths:
        rounds = [processor_time(classifier, texts[tokens][0]) for _ in range(bench.rounds(25))]
        whole = milliseconds([sum(parts.values()) for parts in rounds])
        for name in rounds[0]:
            yield Comparison("model", f"processor time, {name}, {tokens} tokens", "all its parts",
                             "ms", milliseconds([parts[name] for parts in rounds]), whole)


def processor_time(classifier: EmotionClassifier, text: str) -> dict[str, float]:
    """Seconds of processor time in each part of one answer on the page, Gradio left out."""
    encoding, tokenise = timed(lambda: classifier.encode(text))
    prediction, both = timed(lambda: classifier(text))
    attentions = prediction.attentions
    data, made = timed(lambda: answer_data(encoding, attentions))
    weights = attentions.reshape(-1, *attentions.shape[-2:])
    _, packing = timed(lambda: Matrix(weights, "weights").pack())
    _, dumped = timed(lambda: json.dumps(data))
    return {"tokenise": tokenise, "forward": max(both - tokenise, 0.0),
            "patterns": max(made - packing, 0.0), "packing": packing, "JSON": dumped}


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    result = run()
    return result, time.process_time() - began
