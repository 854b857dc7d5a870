"""Fine-tune BERT on labelled lines: ten feelings, and any number of other label sets on the side.

    python -m bert.finetune --start-from checkpoints/pretrained --train assets/data/train*.tsv \\
        --dev assets/data/dev.tsv --run-dir runs/finetune --out checkpoints/emotion

--train and --dev have the columns label, lang, level, pair, text; lines labelled `none` pull
towards the uniform distribution; of --parallel files (`korean<TAB>english`) the renderings of those
lines train with their labels. --auxiliary files (`text<TAB>label,label`) each get a head of their
own that is thrown away at the end; of --mapped files the lines whose labels --label-map maps onto
one feeling train the ten classes as well, and so do the lines of --found-in files that --readings
has labels for. --taught files are the answers of another model (made by `bert.predict --input FILE
--json`), learned as they are and mixed into the labels; of --teacher folders the sentence vectors
of English lines, and of Korean ones through their rendering, are learned in the same pass by a head
that is thrown away, too. --leave-out skips most of our lines that --start-from knows already. The
weights of the best epoch on dev are kept; the temperature fitted on dev is folded into the
classifier, the confidence threshold into the config. Interrupted at any moment, the same command
goes on from the last save.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from bert.augment import refill
from bert.checkpoint import (
    TOKENIZER,
    Checkpoint,
    check_replaceable,
    load_checkpoint,
    save_checkpoint,
    untrained,
)
from bert.config import Parser, add_options, described_call, option, read_options
from bert.corpus import LabelledLine, batches_by_length, read_labelled
from bert.labels import KEYS, NONE
from bert.machine import tune_machine
from bert.metrics import fit_temperature, fit_threshold, metrics_file
from bert.model import BertForSequenceClassification
from bert.sources import (
    MAIN,
    LabelledBatch,
    LabelledData,
    Source,
    add_readings,
    auxiliary_source,
    emotion_source,
    in_english,
    joint_answers,
    read_answers,
    read_mapped,
    read_pairs,
    read_readings,
    rendered_lines,
    taught_source,
    with_teacher,
)
from bert.teachers import remembered, vectors_side_by_side, weights_mark
from bert.tokenizer import WordPieceTokenizer
from bert.training import (
    LoopConfig,
    Processes,
    Reporter,
    Sums,
    check_max_steps,
    fingerprint,
    fit,
)


@dataclass(frozen=True)
class FinetuneConfig(LoopConfig):
    """How fine-tuning runs."""

    learning_rate: float = option(3e-4, "peak learning rate")
    warmup: int = option(50, "steps in which the learning rate climbs")
    layer_decay: float = option(0.9, "how much slower each layer learns than the one above it")
    epochs: float = option(6.0, "times through the lines; 3.5 ends in the middle of the fourth")
    longest: int = option(64, "pieces of a line that are read")
    dropout: float = option(0.1, "dropout of the hidden states and the pooled vector")
    label_smoothing: float = option(0.05, "share of the target spread over all classes")
    none_weight: float = option(1.0, "weight of lines without a feeling")
    mapped_weight: float = option(0.3, "weight of public lines that map onto a feeling")
    reading_weight: float = option(1.0, "weight of public lines labelled by --readings")
    partly_mapped: bool = option(False, "also public lines of whose labels only some are mapped")
    auxiliary_weight: float = option(0.5, "weight of the other label sets")
    balance: bool = option(False, "weigh classes so that each counts the same")
    freeze: int = option(0, "layers, from the embeddings up, that do not learn")
    patience: int = option(3, "epochs without a better dev score before stopping")
    vary: float = option(0.0, "share of lines written differently: spaces, typos, case, ㅋㅋ")
    resplit: float = option(0.0, "share of pieces cut in two known ones")
    hide: float = option(0.0, "share of pieces hidden behind [MASK]")
    teacher_share: float = option(0.5, "share of a teacher's answer in a labelled line's target")
    mapped_teacher_share: float = option(0.5, "the same in the target of a mapped public line, "
                                         "there also where it contradicts the label")
    taught_weight: float = option(0.3, "weight of lines that have a teacher's answer only")
    vector_weight: float = option(1.0, "weight of the teachers' sentence vectors")
    leave_out: float = option(0.0, "share left out of those of our lines that --start-from is "
                              "already sure of")
    augment: int = option(0, "copies of each line with words filled in anew (--augment-with)")
    keep_feeling: float = option(0.87, "share of dev's feeling lines that must stay confident")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_at_least(1, "epochs")
        self.check_at_least(3, "longest")
        self.check("a share from 0 to 1", lambda share: 0 <= share <= 1, "dropout",
                   "label_smoothing", "vary", "resplit", "hide", "teacher_share",
                   "mapped_teacher_share", "leave_out", "keep_feeling")
        if self.leave_out and (self.balance or self.augment):
            raise ValueError("--leave-out goes neither with --balance, whose counts it changes, "
                             "nor with --augment, of whose copies it would keep the worst")


# ---------------------------------------------------------------------------------- learning


class MultiHead(nn.Module):
    """The classifier that ships, a head for every auxiliary label set, and one that answers with
    the teachers' sentence vector."""

    def __init__(self, classifier: BertForSequenceClassification,
                 sources: Sequence[Source]) -> None:
        super().__init__()
        self.main = classifier
        vectors = sources[0].vectors
        self.to_vector = (None if vectors is None else
                          nn.Linear(classifier.config.hidden_size, vectors.shape[1]))
        self.heads = nn.ModuleDict({
            source.head: nn.Linear(classifier.config.hidden_size, source.targets.shape[1])
            for source in sources if source.head != MAIN})


def batch_losses(model: MultiHead, batch: LabelledBatch, device: torch.device,
                 vector_weight: float = 1.0) -> Sums:
    """Weighted cross entropy of the batch's head, as a sum over the lines, and one minus the cosine
    to the teachers' vector where a line has one."""
    mask = None if batch.is_token.all() else torch.from_numpy(batch.is_token).to(device)
    output = model.main(torch.from_numpy(batch.ids).to(device), None, mask)
    targets = torch.from_numpy(batch.targets).to(device)
    weights = torch.from_numpy(batch.weights).to(device)
    name = batch.source.head
    if batch.source.is_exclusive:
        logits = output.logits
        each = F.cross_entropy(logits, targets, reduction="none")
    else:
        logits = model.heads[name](model.main.dropout(output.bert.pooled))
        each = F.binary_cross_entropy_with_logits(logits, targets, reduction="none").sum(dim=-1)
    rows = len(batch.weights)
    # Over the rows, not over the weights: a batch of light lines takes a light step.
    sums: Sums = {f"{name}_loss": ((each * weights).sum(), rows)}
    if name == MAIN:
        has_class = targets.max(dim=-1).values > 0.5
        right = (logits.argmax(-1) == targets.argmax(-1)) & has_class
        sums[f"{name}_accuracy"] = (right.sum(), int(has_class.sum()))
    if batch.vectors is not None:
        vectors = torch.from_numpy(batch.vectors).to(device)
        away = 1 - F.cosine_similarity(model.to_vector(output.bert.pooled), vectors)
        sums["vector_loss"] = (vector_weight * (away * vectors.any(dim=-1)).sum(), rows)
    return sums


@torch.inference_mode()
def logits_of(model: BertForSequenceClassification, tokenizer: WordPieceTokenizer,
              texts: Sequence[str], batch_tokens: int = 4_096) -> np.ndarray:
    """Logits of many texts, (N, C), in order."""
    was_training = model.training
    model.eval()
    longest = model.config.max_position_embeddings - 2
    ids = [row[:longest] for row in tokenizer.encode_ids(list(texts))]
    lengths = np.array([len(row) + 2 for row in ids])
    result = np.zeros((len(ids), len(model.config.id2label)), dtype=np.float32)
    for chosen in batches_by_length(lengths, batch_tokens, np.random.default_rng(0)):
        framed, is_token = tokenizer.frame([ids[i] for i in chosen])
        mask = None if is_token.all() else torch.from_numpy(is_token)
        device = next(model.parameters()).device
        mask = mask if mask is None else mask.to(device)
        logits = model(torch.from_numpy(framed).to(device), None, mask, lean=True).logits
        result[chosen] = logits.cpu().numpy()
    model.train(was_training)
    return result


def dev_score(logits: np.ndarray, lines: Sequence[LabelledLine]) -> float:
    """Mean of the accuracies on easy and hard lines of each language."""
    answers = logits.argmax(axis=1)
    parts: dict[tuple[str, str], list[bool]] = {}
    for answer, line in zip(answers, lines, strict=True):
        if line.label != NONE:
            parts.setdefault((line.language, line.level), []).append(KEYS[answer] == line.label)
    return float(np.mean([np.mean(part) for part in parts.values()]))


def fold_temperature(model: BertForSequenceClassification, logits: np.ndarray,
                     lines: Sequence[LabelledLine]) -> float:
    """Scale the classifier so that it is right as often as it says it is; returns by how much its
    logits have been divided."""
    is_feeling = np.array([line.label != NONE for line in lines])
    truth = np.array([KEYS.index(line.label) for line in lines if line.label != NONE])
    temperature = fit_temperature(logits[is_feeling], truth)
    with torch.no_grad():
        model.classifier.weight /= temperature
        model.classifier.bias /= temperature
    return temperature


def set_threshold(model: BertForSequenceClassification, logits: np.ndarray,
                  lines: Sequence[LabelledLine], keep: float) -> None:
    """Put into the config from which probability on an answer is `confident`."""
    top = torch.from_numpy(logits).softmax(-1).numpy().max(axis=1)
    is_feeling = np.array([line.label != NONE for line in lines])
    threshold = fit_threshold(top[is_feeling], top[~is_feeling], keep)
    model.config = replace(model.config, confidence_threshold=round(threshold, 4))


def knows_our_classes(start: Checkpoint) -> bool:
    return start.has_classifier and start.config.id2label == KEYS


def starting_point(folder: Path, settings: FinetuneConfig,
                   ) -> tuple[BertForSequenceClassification, WordPieceTokenizer]:
    """A classifier whose BERT comes from a checkpoint of any kind; its head is new unless the
    checkpoint has one for the same classes."""
    start = load_checkpoint(folder)
    if settings.leave_out and not knows_our_classes(start):
        raise ValueError(f"--leave-out asks --start-from what it knows, and {folder} has not "
                         "learned our ten classes: give a checkpoint of bert.finetune")
    # Attention keeps all its weights: with dropout the fused kernel cannot be used, and every step
    # takes a sixth longer.
    config = replace(start.config, id2label=KEYS, hidden_dropout_prob=settings.dropout,
                     attention_probs_dropout_prob=0.0)
    model = untrained(config, BertForSequenceClassification, settings.seed)
    bert = getattr(start.model, "bert", start.model)
    model.bert.load_state_dict(bert.state_dict())
    if knows_our_classes(start):
        model.classifier.load_state_dict(start.model.classifier.state_dict())
    if settings.freeze:
        model.bert.embeddings.requires_grad_(False)
        for layer in model.bert.encoder.layer[:settings.freeze - 1]:
            layer.requires_grad_(False)
    return model, start.tokenizer


def with_vectors(sources: Sequence[Source], renderings: Mapping[str, str],
                 teachers: Sequence[Path], longest: int, cache: Path) -> list[Source]:
    """The same lines with the vectors that English teachers have for each or for its rendering."""
    english = [[in_english(text, renderings) for text in source.texts] for source in sources]
    texts = sorted({text for part in english for text in part if text})
    if not texts:
        raise ValueError("--teacher reads English, and no line is English or has a rendering in "
                         "it: give --parallel")
    vectors = vectors_side_by_side(teachers, texts, longest, cache)
    vectors = np.concatenate([vectors, np.zeros_like(vectors[:1])])  # the last: not readable
    row = {text: i for i, text in enumerate([*texts, ""])}
    return [replace(source, vectors=vectors[[row[text] for text in part]])
            for source, part in zip(sources, english, strict=True)]


def without_known(sources: Sequence[Source], model: BertForSequenceClassification,
                  tokenizer: WordPieceTokenizer, share: float, seed: int,
                  cache: Path) -> list[Source]:
    """The sources without a share of those of our lines that the model answers as it should
    already: the feeling with 90 %, or, where there is none, no feeling with more than 30 %.
    Public lines all stay: among those it gets wrong are too many wrong labels."""
    draw, kept = np.random.default_rng([seed, 0, 3]), []
    file = cache / f"{weights_mark(model)}.npz"
    for source in sources:
        if not source.is_own or not source.texts:
            kept.append(source)
            continue
        answers = remembered(file, source.texts, lambda texts: torch.from_numpy(
            logits_of(model, tokenizer, texts)).softmax(-1).numpy())
        rows = np.arange(len(answers))
        has_feeling = source.targets.max(axis=1) > 0.5
        is_known = np.where(has_feeling, answers[rows, source.targets.argmax(axis=1)] > 0.9,
                            answers.max(axis=1) < 0.3)
        stays = rows[~(is_known & (draw.random(len(rows)) < share))]
        kept.append(replace(
            source, texts=[source.texts[row] for row in stays], targets=source.targets[stays],
            weights=source.weights[stays],
            vectors=None if source.vectors is None else source.vectors[stays]))
        print(f"{len(rows) - len(stays):,} of {len(rows):,} lines are left out", flush=True)
    return kept


def finetune(settings: FinetuneConfig, start_from: Path, sources: Sequence[Source],
             dev: Sequence[LabelledLine], run: Path, out: Path,
             max_steps: int | None = None, teachers: Sequence[Path] = (),
             renderings: Mapping[str, str] | None = None) -> None:
    """The whole run."""
    check_max_steps(max_steps)
    processes = Processes.join()
    check_replaceable(out, TOKENIZER)
    model, tokenizer = starting_point(start_from, settings)
    longest = min(settings.longest, model.config.max_position_embeddings)
    if teachers:
        sources = processes.main_first(lambda: with_vectors(
            sources, renderings or {}, teachers, longest, run / "vectors"))
    if settings.leave_out:
        sources = processes.main_first(lambda: without_known(
            sources, model, tokenizer, settings.leave_out, settings.seed, run / "known"))
    data = LabelledData(sources, tokenizer, settings.batch_tokens * processes.world_size,
                        settings.seed, longest, settings.vary, settings.resplit, settings.hide)
    torch.manual_seed(settings.seed)
    both = MultiHead(model, sources).to(processes.device)
    best = run / "best"

    def losses(batch: LabelledBatch) -> Sums:
        return batch_losses(both, batch.rows(processes.rank, processes.world_size),
                            processes.device, settings.vector_weight)

    def after_epoch(progress: dict[str, Any]) -> bool:
        if not dev:
            if processes.is_main:
                save_checkpoint(best, model, tokenizer)
            return False
        score = dev_score(logits_of(model, tokenizer, [line.text for line in dev]), dev)
        if processes.is_main:
            print(f"\nepoch {progress['epoch']}: dev {score:.4f}", flush=True)
        history = [*progress.get("dev_scores", []), score]
        progress["dev_scores"] = history
        if score == max(history) and processes.is_main:
            save_checkpoint(best, model, tokenizer)
        return len(history) - 1 - int(np.argmax(history)) >= settings.patience

    lines = [part for source in sources
             for part in (source.head, source.texts, source.targets, source.weights)]
    lines += [source.vectors for source in sources if source.vectors is not None]
    read = fingerprint(tokenizer.digest(), *lines, list(dev))
    steps = int(settings.epochs * data.num_batches)
    progress = fit(both, losses, data.batches, settings, steps, run, processes, data=read,
                   max_steps=max_steps, after_epoch=after_epoch)
    if processes.is_main:
        if not progress.get("dev_scores"):  # no epoch was judged: the weights as they are
            save_checkpoint(best, model, tokenizer)
        facts = {"finetune": {
            "command": described_call("bert.finetune"), "seed": settings.seed, "data": read,
            "settings": asdict(settings), "dev_scores": progress.get("dev_scores", [])},
            "curves": {"finetune": Reporter(run, 0).curve()}}
        files = metrics_file(facts)
        save_checkpoint(run / "last", model, tokenizer, files=files)
        finish(best, settings, dev, files, out)
    processes.leave()


def finish(best: Path, settings: FinetuneConfig, dev: Sequence[LabelledLine],
           files: Mapping[str, str], out: Path) -> None:
    """Calibrate the best weights and write the checkpoint."""
    kept = load_checkpoint(best)
    model = kept.model
    if dev:
        logits = logits_of(model, kept.tokenizer, [line.text for line in dev])
        temperature = fold_temperature(model, logits, dev)
        set_threshold(model, logits / temperature, dev, settings.keep_feeling)
    save_checkpoint(out, model, kept.tokenizer, half=True, files=files)


# ---------------------------------------------------------------------------------- command line


def build_parser() -> Parser:
    parser = Parser(prog="bert.finetune", description=__doc__.split("\n")[0])
    parser.add_argument("--start-from", type=Path, required=True, metavar="CHECKPOINT",
                        help="any checkpoint; its BERT is the beginning")
    parser.add_argument("--train", type=Path, nargs="*", default=[], metavar="FILE",
                        help="labelled lines: label, lang, level, pair, text")
    parser.add_argument("--dev", type=Path, nargs="*", default=[], metavar="FILE",
                        help="labelled lines that choose the epoch, temperature and threshold")
    parser.add_argument("--auxiliary", type=Path, nargs="*", default=[], metavar="FILE",
                        help="text<TAB>label,label; each file has a head of its own")
    parser.add_argument("--mapped", type=Path, nargs="*", default=[], metavar="FILE",
                        help="text<TAB>label,label; lines that --label-map maps onto a feeling")
    parser.add_argument("--label-map", type=Path, metavar="FILE",
                        help="columns dataset, original_label, class10, quality")
    add_readings(parser, "train")
    parser.add_argument("--parallel", type=Path, nargs="*", default=[], metavar="FILE",
                        help="korean<TAB>english: the rendering of a labelled line trains with its "
                             "label, a Korean line learns a teacher's answer to its rendering")
    parser.add_argument("--taught", type=Path, nargs="*", default=[], metavar="FILE",
                        help="a teacher's answers, from bert.predict --input FILE --json")
    parser.add_argument("--teacher", type=Path, nargs="*", default=[], metavar="FOLDER",
                        help="an English BertModel or classifier whose sentence vectors are "
                             "learned beside the labels")
    parser.add_argument("--augment-with", type=Path, metavar="CHECKPOINT",
                        help="pre-trained checkpoint that fills in the words for --augment")
    parser.add_argument("--languages", nargs="*", default=[], metavar="LANG",
                        help="use only our lines in these languages (default: all)")
    parser.add_argument("--run-dir", type=Path, required=True, help="folder for the saved state")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint folder to write")
    parser.add_argument("--max-steps", type=int, help="stop after this many steps; 2 is a dry run")
    add_options(parser, FinetuneConfig)
    return parser


def spoken_in(languages: Sequence[str], lines: Sequence[LabelledLine]) -> list[LabelledLine]:
    """The lines in these languages; all of them if none is named."""
    return [line for line in lines if not languages or line.language in languages]


def read_sources(arguments, settings: FinetuneConfig,
                 pairs: Sequence[tuple[str, str]]) -> list[Source]:
    """Every file of the call, as sources of lines."""
    own = [line for path in arguments.train for line in read_labelled(path)]
    own += rendered_lines(own, pairs)
    known = {line.text for line in own}  # whatever --languages leaves out is not "taught only"
    own = spoken_in(arguments.languages, own)
    if settings.augment and arguments.augment_with is None:
        raise ValueError("--augment needs --augment-with")
    if settings.augment:
        filler = load_checkpoint(arguments.augment_with)
        own += [line for copy in range(settings.augment)
                for line in refill(own, filler, seed=settings.seed + copy)]
    public = read_mapped(arguments.mapped, arguments.label_map, settings.partly_mapped)
    read = (read_readings(arguments.readings, arguments.found_in, "train")
            if arguments.readings else [])
    known |= {line.text for line in [*public, *read]}
    public, read = (spoken_in(arguments.languages, lines) for lines in (public, read))
    answers = joint_answers([read_answers(path) for path in arguments.taught])
    answers = joint_answers([answers, {korean: answers[english] for korean, english in pairs
                                       if english in answers}])
    sources = [auxiliary_source(path, settings.auxiliary_weight) for path in arguments.auxiliary]
    heads = [MAIN, *(source.head for source in sources)]
    for path, source in zip(arguments.auxiliary, sources, strict=True):
        if heads.count(source.head) > 1:
            raise ValueError(f"{path}: the head {source.head!r} is taken: the name up to the first "
                             "dot must be its own")
    for lines, weight, share, doubtful in (
            (own, 1.0, settings.teacher_share, False),
            (public, settings.mapped_weight, settings.mapped_teacher_share, True),
            (read, settings.reading_weight, settings.teacher_share, False)):
        if lines:
            source = emotion_source(lines, settings.label_smoothing, settings.none_weight,
                                    settings.balance)
            source = with_teacher(source, answers, share, doubtful)
            sources.append(replace(source, weights=source.weights * weight, is_own=lines is own))
    taught = taught_source(answers, known)
    if taught.texts:
        sources.append(replace(taught, weights=taught.weights * settings.taught_weight))
    if not sources:
        raise ValueError("nothing to learn from: give --train, --mapped, --taught or --auxiliary")
    print(f"{len(own):,} own lines, {len(public):,} mapped and {len(read):,} read public lines, "
          f"{len(taught.texts):,} lines with a teacher's answer only, "
          f"{len(arguments.auxiliary)} auxiliary set(s)", flush=True)
    return sources


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    tune_machine()
    with parser.one_sentence():
        settings = read_options(arguments, FinetuneConfig)
        dev = spoken_in(arguments.languages,
                        [line for path in arguments.dev for line in read_labelled(path)])
        if arguments.dev and not dev:
            raise ValueError(f"--dev has no line in {', '.join(arguments.languages)}")
        pairs = read_pairs(arguments.parallel)
        finetune(settings, arguments.start_from, read_sources(arguments, settings, pairs), dev,
                 arguments.run_dir, arguments.out, arguments.max_steps, arguments.teacher,
                 dict(pairs))


if __name__ == "__main__":
    main()
