"""Measure a checkpoint: accuracy, F1, calibration, the confident flag, robustness.

    python -m bert evaluate

scores checkpoints/emotion on the lines that ship with the project, by language: test.tsv, the
held-out personas, the contrast set by group, and texts with two feelings. Every figure goes into
the checkpoint's metrics.json, with the command, the seed and the data's checksum; --figures FOLDER
draws the confusion matrix and the reliability diagram. Public sets (`text<TAB>label,label`) are
scored on the lines that --label-map maps onto one feeling, and with --llm-labels on public lines
that a language model labelled and nobody trained on.

    python -m bert evaluate --pretrained --sources x_docs.txt y_lines.txt

scores masked pieces and next sentences on the held-out documents of the sources instead, and hidden
words in everyday sentences.

    python -m bert evaluate --explanations
    python -m bert evaluate --heads
    python -m bert evaluate --pruning
    python -m bert evaluate --lens assets/data/train_*.tsv

put explanations on trial, describe every head in general (heads.json), count how many heads can go
before the answers change, and fit the tuned lens (tuned_lens.safetensors).
"""

import tempfile
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert.arguments import Parser, described_call, positive
from bert.classifier import PretrainedBert
from bert.commands import evaluate_network
from bert.emotions import EMOTIONS, NONE
from bert.errors import UserError
from bert.hub import is_hub_id
from bert.training.card import write_card
from bert.training.corpus import TokenCorpus
from bert.training.evaluation import (
    LANGUAGES,
    ROBUSTNESS_SEED,
    load_ten,
    measure,
    measure_cloze,
    measure_contrast,
    measure_levels,
    measure_llm_labels,
    measure_public,
    measure_two_feelings,
    probabilities_of,
)
from bert.training.examples import read_cloze, read_contrast, read_labelled, read_llm_labels
from bert.training.metrics import checksum, levels_row, read_metrics, write_metrics
from bert.training.pretraining import HELD_OUT_SEED, measure_held_out

PARTS = {"contrast": "contrast", "two_feelings": "two feelings", "llm_labels": "LLM labels"}

# ---------------------------------------------------------------------------------- report


def report_rows(results: Mapping[str, Any]) -> dict[str, dict[str, float | None]]:
    """Every figure that is measured by language: {name: {language: value}}."""
    rows: dict[str, dict[str, float | None]] = {}

    def add(part: str, language: str, found: Mapping[str, Any]) -> None:
        for name, value in found.items():
            name = f"{part}: {name.replace('_', ' ')}" if part else name.replace("_", " ")
            if isinstance(value, Mapping):
                add(name, language, value)
            elif not isinstance(value, list):
                rows.setdefault(name, {})[language] = value

    for language, found in results["languages"].items():
        add("", language, found)
        for file, scores in results["more"].items():
            add(file, language, scores.get(language, {}))
        for part in ("contrast", "two_feelings", "llm_labels"):
            add(PARTS[part], language, results.get(part, {}).get("languages", {}).get(language, {}))
    return rows


def print_report(results: Mapping[str, Any]) -> None:
    """A table a person can read."""
    print("measure".ljust(36) + "".join(name.rjust(10) for name in results["languages"]))
    for name, values in report_rows(results).items():
        cells = (values.get(language) for language in results["languages"])
        print(name.ljust(36) + "".join(
            "–".rjust(10) if value is None else f"{value:10.3f}" if isinstance(value, float)
            else f"{value:10,}" for value in cells))
    for name, values in results["public"].items():
        print(f"{name}: {values['accuracy']:.3f} of {values['lines']:,} lines")


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
                        help="folder or Hub id (default: checkpoints/emotion)")
    parser.add_argument("--data", type=Path, default=Path("assets/data/test.tsv"),
                        help="labelled lines (default: assets/data/test.tsv)")
    parser.add_argument("--more", type=Path, nargs="*", metavar="FILE",
                        help="further labelled lines: accuracy by language and level (default: "
                             "personas.tsv beside --data, if it is there)")
    parser.add_argument("--public", type=Path, nargs="*", default=[], metavar="FILE",
                        help="public test sets, text<TAB>label,label")
    parser.add_argument("--label-map", type=Path, help="columns dataset, original_label, class10, "
                        "quality; needed with --public")
    parser.add_argument("--contrast", type=Path, metavar="FILE",
                        help="the contrast set: accepted answers by language and group, and texts "
                             "with two feelings (default: contrast.tsv beside --data)")
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
                        help="with --pretrained: sentences with one hidden word (default: "
                             "cloze.tsv beside --data)")
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
    parser.add_argument("--pruning", type=int, nargs="?", const=400, metavar="LINES",
                        help="switch heads off, the least important first, and count unchanged "
                        "answers over this many lines a language (default: 400) instead")
    parser.add_argument("--lens", type=Path, nargs="+", metavar="FILE",
                        help="fit the tuned lens on these labelled lines instead")
    parser.add_argument("--card", action="store_true",
                        help="write the model card from metrics.json instead")
    parser.add_argument("--figures", type=Path, help="folder for the diagrams")
    parser.add_argument("--dry", action="store_true", help="print only; leave metrics.json alone")
    parser.add_argument("--max-steps", type=positive, metavar="N",
                        help="dry run: only N × 32 lines (N a language for --explanations, "
                        "--heads and --pruning); writes nothing")
    return parser


def beside(data: Path, name: str) -> list[Path]:
    """A file of the same folder, if it is there."""
    path = data.with_name(name)
    return [path] if path.is_file() else []


def fill_defaults(arguments: Namespace) -> None:
    """What ships beside the test lines is measured along with them."""
    if arguments.more is None:
        arguments.more = beside(arguments.data, "personas.tsv")
    for name in ("contrast", "cloze"):
        if getattr(arguments, name) is None:
            setattr(arguments, name, next(iter(beside(arguments.data, f"{name}.tsv")), None))


def check_names(folders: Iterable[Path]) -> None:
    """Refuse two folders that would stand in one row of a table."""
    names = [folder.name for folder in folders]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two of the folders are called {name!r}, which is what their rows "
                            "are called: rename one")


def check_writable(arguments: Namespace) -> None:
    """Refuse to measure for minutes what has no folder to be written into."""
    folder = arguments.pretrained or arguments.checkpoint
    if is_hub_id(folder) and not folder.is_dir() and not (arguments.dry or arguments.max_steps):
        raise UserError(f"{folder.as_posix()} is a name on the Hub, and figures are written into a "
                        "folder: add --dry, or give a folder of your own")


def evaluate(arguments: Namespace) -> dict[str, Any]:
    """Every figure of a checkpoint that answers with the ten feelings."""
    classifier = load_ten(arguments.checkpoint)
    most = arguments.max_steps * 32 if arguments.max_steps else None
    lines = read_labelled(arguments.data)[:most]
    results: dict[str, Any] = {
        "command": described_call("evaluate"), "seed": ROBUSTNESS_SEED,
        "data": {arguments.data.name: checksum(arguments.data)}, "languages": {}}
    for language in LANGUAGES:
        own = [line for line in lines if line.language == language]
        if any(line.label != NONE for line in own):
            print(f"{arguments.data.name}: {len(own):,} lines, {language}", flush=True)
            results["languages"][language] = measure(classifier, own)
    languages = list(results["languages"])
    if not languages:
        raise UserError(f"{arguments.data} has no Korean or English line with a feeling")
    foreign = [line.text for line in lines if line.language == "xx"]
    if foreign:
        top = probabilities_of(classifier, foreign).max(axis=1)
        results["other_languages_not_confident"] = float(
            (top < classifier.config.confidence_threshold).mean())
    results["more"] = {path.name: {"checksum": checksum(path), **measure_levels(
        classifier, languages, read_labelled(path)[:most])} for path in arguments.more}
    results["public"] = {path.name: measure_public(classifier, path, arguments.label_map)
                         for path in arguments.public}
    if arguments.contrast:
        contrast = read_contrast(arguments.contrast, arguments.contrast_split)[:most]
        origin = {"checksum": checksum(arguments.contrast), "split": arguments.contrast_split}
        results["contrast"] = {**origin, "lines": len(contrast),
                               "languages": measure_contrast(classifier, contrast)}
        results["two_feelings"] = {**origin,
                                   "languages": measure_two_feelings(classifier, contrast)}
    if arguments.llm_labels:
        labelled = read_llm_labels(arguments.llm_labels, arguments.found_in, "test")[:most]
        results["llm_labels"] = {"checksum": checksum(arguments.llm_labels),
                                 "languages": measure_llm_labels(classifier, labelled)}
    return results


def measure_baselines(arguments: Namespace, languages: Sequence[str]) -> dict[str, Any]:
    """What people would use instead, on the same lines."""
    most = arguments.max_steps * 32 if arguments.max_steps else None
    lines = read_labelled(arguments.data)[:most]
    return {Path(folder).name: measure_levels(load_ten(Path(folder)), own or languages, lines)
            for folder, *own in arguments.baseline}


def evaluate_pretrained(arguments: Namespace) -> None:
    """Hidden words, and masked pieces and next sentences on held-out documents; without their
    sources, the figures that were written down when they were measured."""
    model = PretrainedBert.load(arguments.pretrained)
    found: dict[str, Any] = {}
    if arguments.cloze:
        found["cloze"] = {
            "command": described_call("evaluate"),
            "data": {arguments.cloze.name: checksum(arguments.cloze)},
            "languages": measure_cloze(model, read_cloze(arguments.cloze)[:arguments.max_steps])}
    if arguments.sources:
        found["held_out"] = {
            "command": described_call("evaluate"), "seed": HELD_OUT_SEED,
            **held_out_of(model, arguments.sources, arguments.max_steps)}
    if found and not (arguments.dry or arguments.max_steps):
        write_metrics(arguments.pretrained, found)
    known = {**read_metrics(arguments.pretrained), **found}
    if "held_out" not in known and not found:
        raise UserError(f"{arguments.pretrained} has not been measured yet: give --sources, the "
                        "text files it was trained on")
    print_held_out(known.get("held_out", {}), known.get("cloze", {}))


def held_out_of(model: PretrainedBert, sources: Sequence[Path],
                most_batches: int | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        _, held = TokenCorpus.prepare(Path(folder), model.tokenizer, sources)
        if not len(held.ids):
            raise UserError("the sources have no held-out document: give larger ones")
        return measure_held_out(model.model, held, model.tokenizer, most_batches=most_batches)


def print_held_out(found: Mapping[str, Any], cloze: Mapping[str, Any]) -> None:
    for language, values in found.get("languages", {}).items():
        print(f"masked pieces right, {language}: {values['masked_right']:.1%} of "
              f"{values['masked']:,}")
    for name, values in found.get("sources", {}).items():
        if values["pairs"]:
            print(f"next sentence right, {name}: {values['next_sentence_right']:.1%} of "
                  f"{values['pairs']:,}")
    if found.get("next_sentence_right") is not None:
        print(f"next sentence right, mean without reviews: {found['next_sentence_right']:.1%}")
    for language, values in cloze.get("languages", {}).items():
        print(f"hidden word among the first ten guesses, {language}: {values['first_ten']:.1%} of "
              f"{values['sentences']}")


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    with parser.one_sentence():
        check_writable(arguments)
        if arguments.card:
            print(f"saved {write_card(arguments.pretrained or arguments.checkpoint)}")
            return
        fill_defaults(arguments)
        instead = {"pretrained": evaluate_pretrained,
                   "explanations": evaluate_network.evaluate_explanations,
                   "heads": evaluate_network.evaluate_heads,
                   "pruning": evaluate_network.evaluate_pruning, "lens": evaluate_network.fit_lens}
        chosen = [name for name in instead if getattr(arguments, name) is not None]
        for name in chosen:
            instead[name](arguments)
        if chosen:
            return
        if arguments.public and arguments.label_map is None:
            raise UserError("--public needs --label-map")
        check_names(Path(folder) for folder, *_ in arguments.baseline)
        results = evaluate(arguments)
        baselines = measure_baselines(arguments, list(results["languages"]))
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
