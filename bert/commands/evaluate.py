"""Measure a checkpoint: accuracy, F1, calibration, the confident flag, robustness.

    python -m bert evaluate --checkpoint checkpoints/emotion --data assets/data/test.tsv

Writes every figure into the checkpoint's metrics.json, with the command and the data's checksum,
and with --figures FOLDER the confusion matrix and the reliability diagram of each language. Public
sets (`text<TAB>label,label`) are scored on the lines that --label-map maps onto one feeling, and
with --llm-labels on public lines that a language model labelled and nobody trained on.

    python -m bert evaluate --pretrained --sources x_docs.txt y_lines.txt

scores masked pieces and next sentences on the held-out documents of the sources instead.

    python -m bert evaluate --explanations
    python -m bert evaluate --heads
    python -m bert evaluate --lens assets/data/train_*.tsv

put explanations on trial (into metrics.json), describe every head in general (heads.json) and fit
the tuned lens (tuned_lens.safetensors), for a checkpoint with any classes.
"""

import random
import tempfile
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert.arguments import Parser, described_call, positive
from bert.classifier import EmotionClassifier, PretrainedBert
from bert.emotions import EMOTIONS, NONE
from bert.errors import UserError
from bert.explain import heads, tuned_lens
from bert.explain.league import league, league_rows
from bert.training.corpus import TokenCorpus
from bert.training.evaluation import (
    LANGUAGES,
    load_ten,
    measure,
    measure_cloze,
    measure_contrast,
    measure_levels,
    measure_llm_labels,
    measure_public,
    probabilities_of,
)
from bert.training.examples import (
    LabelledLine,
    read_cloze,
    read_contrast,
    read_labelled,
    read_llm_labels,
)
from bert.training.metrics import checksum, levels_row, read_metrics, write_metrics
from bert.training.pretraining import HELD_OUT_SEED, measure_held_out

SEED = 0  # which lines are taken, and the random ranking among the explanations

# ---------------------------------------------------------------------------------- report


def print_report(results: dict[str, Any]) -> None:
    """A table a person can read."""
    languages = results["languages"]
    print("measure".ljust(28) + "".join(name.rjust(10) for name in languages))
    for key, first in next(iter(languages.values())).items():
        if isinstance(first, int | float):
            row = "".join(f"{values[key]:10.3f}" if isinstance(values[key], float)
                          else str(values[key]).rjust(10) for values in languages.values())
            print(key.ljust(28) + row)
        elif isinstance(first, dict):
            for name in first:
                row = "".join(f"{values[key][name]:10.3f}" for values in languages.values())
                print(f"  {key}: {name}".ljust(28) + row)
    for name, scores in results["more"].items():
        print(name, levels_row(scores), sep="   ")
    for language, groups in results.get("contrast", {}).get("languages", {}).items():
        print("contrast", language, " ".join(f"{name} {value:.3f}"
                                             for name, value in groups.items()))
    for language, values in results.get("llm_labels", {}).get("languages", {}).items():
        print("LLM labels", language, " ".join(f"{name} {value:.3f}" if isinstance(value, float)
                                             else f"{name} {value}"
                                             for name, value in values.items()))
    for name, values in results["public"].items():
        print(f"{name}: {values['accuracy']:.3f} of {values['lines']} lines")


def draw_figures(language: str, found: Mapping[str, Any], folder: Path) -> None:
    """Confusion matrix and reliability diagram of one language."""
    from bert.drawing.figures import draw_confusion, draw_reliability, save_figure
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{emotion.korean} {emotion.english}" for emotion in EMOTIONS]
    save_figure(draw_confusion(names, np.array(found["confusion"]), f"test lines, {language}"),
                folder / f"confusion_{language}.png")
    save_figure(draw_reliability(found["reliability"], f"calibration, {language}"),
                folder / f"calibration_{language}.png")


def build_parser() -> Parser:
    parser = Parser(prog="bert evaluate", description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoints/emotion"),
                        help="checkpoint folder (default: checkpoints/emotion)")
    parser.add_argument("--data", type=Path, default=Path("assets/data/test.tsv"),
                        help="labelled lines (default: assets/data/test.tsv)")
    parser.add_argument("--more", type=Path, nargs="*", default=[], metavar="FILE",
                        help="further labelled lines: accuracy by language and level")
    parser.add_argument("--public", type=Path, nargs="*", default=[], metavar="FILE",
                        help="public test sets, text<TAB>label,label")
    parser.add_argument("--label-map", type=Path, help="columns dataset, original_label, class10, "
                        "quality; needed with --public")
    parser.add_argument("--contrast", type=Path, metavar="FILE",
                        help="the contrast set: accepted answers by language and group")
    parser.add_argument("--contrast-split", choices=("dev", "test"), default="test")
    parser.add_argument("--llm-labels", type=Path, metavar="FILE",
                        help="columns split, labels, mark: those of the split test are scored")
    parser.add_argument("--found-in", type=Path, nargs="*", default=[], metavar="FILE",
                        help="where the lines of --llm-labels are; of a .tsv the first column")
    parser.add_argument("--pretrained", type=Path, nargs="?", metavar="FOLDER",
                        const=Path("checkpoints/pretrained"),
                        help="score a pre-trained checkpoint on held-out documents instead "
                             "(default: checkpoints/pretrained)")
    parser.add_argument("--cloze", type=Path, metavar="FILE",
                        help="with --pretrained: sentences with one hidden word")
    parser.add_argument("--sources", type=Path, nargs="*", default=[], metavar="FILE",
                        help="with --pretrained: the text files it was trained on; without them "
                             "the figures of the last measurement are printed")
    parser.add_argument("--baseline", nargs="+", action="append", default=[],
                        metavar=("FOLDER", "LANGUAGE"), help="what people would use instead: a "
                        "checkpoint to score on the same lines, in all or the given languages")
    parser.add_argument("--explanations", type=int, nargs="?", const=400, metavar="LINES",
                        help="put every explanation on trial over this many lines a language "
                        "(default: 400) instead")
    parser.add_argument("--heads", type=int, nargs="?", const=2_000, metavar="LINES",
                        help="describe what every head does over this many lines a language "
                        "(default: 2000) instead")
    parser.add_argument("--lens", type=Path, nargs="+", metavar="FILE",
                        help="fit the tuned lens on these labelled lines instead")
    parser.add_argument("--figures", type=Path, help="folder for the diagrams")
    parser.add_argument("--dry", action="store_true", help="print only; leave metrics.json alone")
    parser.add_argument("--max-steps", type=positive, metavar="N",
                        help="dry run: only N × 32 lines (N a language for --explanations and "
                        "--heads); writes nothing")
    return parser


def check_names(folders: Iterable[Path]) -> None:
    """Refuse two folders that would stand in one row of a table."""
    names = [folder.name for folder in folders]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two of the folders are called {name!r}, which is what their rows "
                            "are called: rename one")


def evaluate(arguments: Namespace, lines: Sequence[LabelledLine]) -> dict[str, Any]:
    classifier = load_ten(arguments.checkpoint)
    results: dict[str, Any] = {
        "command": described_call("evaluate"),
        "data": {arguments.data.name: checksum(arguments.data)}, "seed": 0, "languages": {}}
    for language in LANGUAGES:
        own = [line for line in lines if line.language == language]
        if any(line.label != NONE for line in own):
            print(f"{arguments.data.name}: {len(own):,} lines, {language}", flush=True)
            results["languages"][language] = measure(classifier, own)
    if not results["languages"]:
        raise UserError(f"{arguments.data} has no Korean or English line with a feeling")
    foreign = [line.text for line in lines if line.language == "xx"]
    if foreign:
        top = probabilities_of(classifier, foreign).max(axis=1)
        results["other_languages_not_confident"] = float(
            (top < classifier.config.confidence_threshold).mean())
    results["more"] = {path.name: {"checksum": checksum(path), **measure_levels(
        classifier, list(results["languages"]), read_labelled(path))} for path in arguments.more}
    results["public"] = {path.name: measure_public(classifier, path, arguments.label_map)
                         for path in arguments.public}
    if arguments.contrast:
        results["contrast"] = {
            "checksum": checksum(arguments.contrast), "split": arguments.contrast_split,
            "languages": measure_contrast(
                classifier, read_contrast(arguments.contrast, arguments.contrast_split))}
    if arguments.llm_labels:
        results["llm_labels"] = {
            "checksum": checksum(arguments.llm_labels), "languages": measure_llm_labels(
                classifier, read_llm_labels(arguments.llm_labels, arguments.found_in, "test"))}
    return results


def evaluate_pretrained(arguments: Namespace) -> None:
    """Masked pieces and next sentences on held-out documents; without their sources, the figures
    that were written down when they were measured."""
    model = PretrainedBert.load(arguments.pretrained)
    cloze = measure_cloze(model, read_cloze(arguments.cloze)) if arguments.cloze else {}
    if arguments.sources:
        found = {"command": described_call("evaluate"), "seed": HELD_OUT_SEED, "cloze": cloze,
                 **held_out_of(model, arguments.sources, arguments.max_steps)}
        if not (arguments.dry or arguments.max_steps):
            write_metrics(arguments.pretrained, {"held_out": found})
    else:
        found = read_metrics(arguments.pretrained).get("held_out", {})
        if not found and not cloze:
            raise UserError(f"{arguments.pretrained} has not been measured yet: give --sources, "
                            "the text files it was trained on")
    print_held_out({**found, "cloze": cloze or found.get("cloze", {})})


def held_out_of(model: PretrainedBert, sources: Sequence[Path],
                most_batches: int | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        _, held = TokenCorpus.prepare(Path(folder), model.tokenizer, sources)
        if not len(held.ids):
            raise UserError("the sources have no held-out document: give larger ones")
        return measure_held_out(model.model, held, model.tokenizer, most_batches=most_batches)


def print_held_out(found: Mapping[str, Any]) -> None:
    for language, values in found.get("languages", {}).items():
        print(f"masked pieces right, {language}: {values['masked_right']:.1%} of "
              f"{values['masked']:,}")
    for name, values in found.get("sources", {}).items():
        if values["pairs"]:
            print(f"next sentence right, {name}: {values['next_sentence_right']:.1%} of "
                  f"{values['pairs']:,}")
    if found.get("next_sentence_right") is not None:
        print(f"next sentence right, mean without reviews: {found['next_sentence_right']:.1%}")
    for language, values in found["cloze"].items():
        print(f"hidden word among the first ten guesses, {language}: {values['first_ten']:.1%} of "
              f"{values['sentences']}")


def chosen_texts(arguments: Namespace, most: int) -> dict[str, list[str]]:
    """Lines with a feeling, taken by chance, at most so many a language."""
    if most < 1:
        raise UserError(f"{most} lines: expected at least 1")
    lines = read_labelled(arguments.data)
    found = {}
    for language in LANGUAGES:
        own = [line.text for line in lines if line.language == language and line.label != NONE]
        own = random.Random(SEED).sample(own, min(most, len(own)))
        found[language] = own[:arguments.max_steps] if arguments.max_steps else own
    if not any(found.values()):
        raise UserError(f"{arguments.data} has no Korean or English line with a feeling")
    return found


def evaluate_explanations(arguments: Namespace) -> None:
    """The league table of explanations."""
    classifier = EmotionClassifier.load(arguments.checkpoint)
    classifier.needs_classifier()
    found = league(classifier, chosen_texts(arguments, arguments.explanations), SEED, tell)
    print(*league_rows(found), sep="\n")
    if not (arguments.dry or arguments.max_steps):
        write_metrics(arguments.checkpoint, {"explanations": {
            "command": described_call("evaluate"),
            "data": {arguments.data.name: checksum(arguments.data)}, **found}})


def evaluate_heads(arguments: Namespace) -> None:
    """What every head does in general."""
    classifier = EmotionClassifier.load(arguments.checkpoint)
    found = heads.describe_heads(classifier, chosen_texts(arguments, arguments.heads), tell)
    for language, tables in found["languages"].items():
        kinds = [kind for row in tables["kind"] for kind in row]
        print(f"{language}, {tables['texts']} lines:", ", ".join(
            f"{kind} {kinds.count(kind)}" for kind in dict.fromkeys(kinds)))
    if not (arguments.dry or arguments.max_steps):
        heads.write_heads(arguments.checkpoint, {
            "command": described_call("evaluate"), "seed": SEED,
            "data": {arguments.data.name: checksum(arguments.data)}, **found})


def fit_lens(arguments: Namespace) -> None:
    """The tuned lens, and how much nearer to the answer it reads than the plain one."""
    classifier = EmotionClassifier.load(arguments.checkpoint)
    texts = [line.text for path in arguments.lens for line in read_labelled(path)]
    random.Random(SEED).shuffle(texts)
    if arguments.max_steps:
        texts = texts[:arguments.max_steps * 32]
    lens, found = tuned_lens.fit(classifier, texts)
    print("divergence from the answer   plain   tuned")
    for layer, (plain, tuned) in enumerate(zip(found["plain"], found["tuned"], strict=True)):
        print(f"after layer {layer}".ljust(26) + f"{plain:8.3f}{tuned:8.3f}")
    if not (arguments.dry or arguments.max_steps):
        lens.save(arguments.checkpoint)
        write_metrics(arguments.checkpoint, {"tuned_lens": {
            "command": described_call("evaluate"), "seed": SEED,
            "data": {path.name: checksum(path) for path in arguments.lens}, **found}})


def tell(line: str) -> None:
    print(line, flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    with parser.one_sentence():
        instead = {"pretrained": evaluate_pretrained, "explanations": evaluate_explanations,
                   "heads": evaluate_heads, "lens": fit_lens}
        chosen = [name for name in instead if getattr(arguments, name) is not None]
        for name in chosen:
            instead[name](arguments)
        if chosen:
            return
        if arguments.public and arguments.label_map is None:
            raise UserError("--public needs --label-map")
        check_names(Path(folder) for folder, *_ in arguments.baseline)
        lines = read_labelled(arguments.data)
        if arguments.max_steps:
            lines = lines[:arguments.max_steps * 32]
        results = evaluate(arguments, lines)
        baselines = {Path(folder).name: measure_levels(
            load_ten(Path(folder)), languages or list(results["languages"]), lines)
            for folder, *languages in arguments.baseline}
        print_report(results)
        for name, scores in baselines.items():
            print(name, levels_row(scores), sep="   ")
        if arguments.dry or arguments.max_steps:
            return
        write_metrics(arguments.checkpoint, {"evaluate": results, "baselines": baselines})
        for language, found in results["languages"].items() if arguments.figures else ():
            draw_figures(language, found, arguments.figures)


if __name__ == "__main__":
    main()
