"""The model card of a checkpoint: a text in assets/cards, filled with what metrics.json says.

    python -m bert evaluate --card                 writes checkpoints/emotion/README.md
    python -m bert evaluate --pretrained --card    writes checkpoints/pretrained/README.md

The table of examples is what the weights answer when the card is written.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from bert.checkpoint import CARD, Checkpoint, load_checkpoint
from bert.classifier import EmotionClassifier, PretrainedBert
from bert.emotions import NONE, display_name
from bert.errors import UserError
from bert.training.evaluation import LANGUAGES
from bert.training.metrics import read_metrics

TEMPLATES = Path(__file__).parents[2] / "assets" / "cards"
NAMES = {"ko": "Korean", "en": "English"}
TITLES = {"personas": "held-out personas", "goemotions": "GoEmotions", "isear": "ISEAR",
          "empathetic": "EmpatheticDialogues", "tweeteval_emotion": "TweetEval emotion"}
GROUPS = {"mixed": "one of two feelings"}
LINEAR = "linear model"  # the baseline that bert baseline scores on further lines as well
CHANCE, CLEAR = 0.55, 0.7  # of next sentences right: up to here guessing, from there not
# What is hard to read, with the answers that would be right.
EXAMPLES = (
    ("안 외로워", ("connection", "security", NONE)),
    ("I don't feel lonely anymore", ("connection", "security", NONE)),
    ("이제 안 무서워, 괜찮아", ("security",)),
    ("nobody ever praises me", ("sadness", "anger")),
    ("또 야근이라니 아주 행복해 죽겠네", ("anger", "sadness")),
    ("Hoover for Mother's Day. How romantic", ("anger", "sadness")),
    ("가게는 아홉 시에 연다", (NONE,)),
)
MASKED = ("오늘은 [MASK]가 너무 좋다", "I drink a cup of [MASK] every morning.")


def write_card(folder: Path) -> Path:
    """Put the card into the checkpoint's folder."""
    path = folder / CARD
    path.write_text(card_text(folder), encoding="utf-8")
    return path


def card_text(folder: Path) -> str:
    """The card of a checkpoint with a classifier, or with the heads of pre-training."""
    checkpoint = load_checkpoint(folder)
    name, filling = (("emotion", emotion_filling(checkpoint)) if checkpoint.has_classifier
                     else ("pretrained", pretrained_filling(checkpoint)))
    text = (TEMPLATES / f"{name}.md").read_text(encoding="utf-8")
    return Template(text).substitute(filling)


def measured(checkpoint: Checkpoint, name: str, command: str) -> tuple[dict[str, Any], Any]:
    """All figures of a checkpoint and those of one measurement, which must be there."""
    metrics = read_metrics(checkpoint.folder)
    if name not in metrics:
        raise UserError(f"{checkpoint.name} has not been measured: run {command} first")
    return metrics, metrics[name]


def common(checkpoint: Checkpoint) -> dict[str, Any]:
    """What both cards say of the network."""
    config = checkpoint.config
    parameters = sum(part.numel() for part in checkpoint.model.parameters()) / 1e6
    return {"shape": f"{config.num_hidden_layers} layers × {config.num_attention_heads} heads × "
                     f"{config.hidden_size} ({parameters:.1f} M parameters, "
                     f"{config.vocab_size:,} pieces)",
            "digest": checkpoint.digest(), "positions": config.max_position_embeddings}


def share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def both(found: Mapping[str, Mapping[str, float]], name: str) -> str:
    """A figure in both languages: {"ko": {"easy": 0.9}, "en": {"easy": 0.8}} -> "90.0 / 80.0 %"."""
    values = [found.get(language, {}).get(name) for language in LANGUAGES]
    if all(value is None for value in values):
        return "–"
    return " / ".join("–" if value is None else f"{100 * value:.1f}" for value in values) + " %"


# ---------------------------------------------------------------------------------- emotion


def emotion_filling(checkpoint: Checkpoint) -> dict[str, Any]:
    metrics, found = measured(checkpoint, "evaluate", "bert evaluate")
    classifier = EmotionClassifier(checkpoint)
    return {**common(checkpoint),
            "classes": ", ".join(map(display_name, classifier.keys)),
            "threshold": f"{checkpoint.config.confidence_threshold:g}",
            "model_index": "\n".join(
                index_row("text-classification", "emotions", NAMES[language], {
                    ("accuracy", "accuracy"): values["accuracy"],
                    ("f1", "macro F1"): values["macro_f1"]})
                for language, values in found["languages"].items()),
            "results": result_table(metrics), "contrast": contrast_sentence(found),
            "public": public_sentence(found),
            "examples": "\n".join(example_row(classifier, text, meant) for text, meant in EXAMPLES)}


def index_row(task: str, config: str, language: str,
              values: Mapping[tuple[str, str], float]) -> str:
    """One result of the model index, in the form that the Hub reads."""
    metrics = ", ".join(f"{{type: {kind}, name: {name}, value: {value:.4f}}}"
                        for (kind, name), value in values.items())
    return (f"      - {{task: {{type: {task}}}, dataset: {{type: emotion-microscope/lines, name: "
            f"\"Emotion Microscope lines, {language}\", config: {config}, split: test}}, "
            f"metrics: [{metrics}]}}")


def result_table(metrics: Mapping[str, Any]) -> str:
    """Every test set in a row, this model and each baseline in a column."""
    found, baselines = metrics["evaluate"], metrics.get("baselines", {})
    linear = metrics.get("baseline", {})
    rows = [["Korean / English", "this model", *baselines],
            ["---", *["---:"] * (1 + len(baselines))]]

    def add(title: str, own: Mapping[str, Any], name: str, others: Mapping[str, Any]) -> None:
        rows.append([title, both(own, name), *(both(others.get(baseline, {}), name)
                                               for baseline in baselines)])

    tested = found["languages"]
    levels = {language: {"easy": values["accuracy_easy"], "hard": values["accuracy_hard"]}
              for language, values in tested.items()}
    for level in ("easy", "hard"):
        add(f"test, {level} lines", levels, level, baselines)
    for file, scores in found["more"].items():
        for level in ("easy", "hard"):
            add(f"{title_of(file)}, {level}", scores, level,
                {LINEAR: linear.get("more", {}).get(file, {})})
    add("contrast set", found.get("contrast", {}).get("languages", {}), "all",
        {LINEAR: linear.get("contrast", {})})
    public = found.get("llm_labels", {}).get("languages", {})
    add("LLM-labelled public lines", public, "accuracy", {})
    add("expected calibration error", tested, "calibration_error", {})
    add("test lines with a feeling that are `confident`", tested, "feeling_confident", {})
    add("test lines without one that are not", tested, "none_not_confident", {})
    add("LLM-labelled public lines without one that are not", public, "none_not_confident", {})
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def contrast_sentence(found: Mapping[str, Any]) -> str:
    """The groups of the contrast set, and texts with two feelings."""
    groups = found.get("contrast", {}).get("languages", {})
    parts = [f"{GROUPS.get(name, name)} {both(groups, name)}" for name in
             dict.fromkeys(name for scores in groups.values() for name in scores) if name != "all"]
    if "two_feelings" in found:
        right = both(found["two_feelings"]["languages"], "right")
        parts.append(f"both of them first and neither above 85 % {right}")
    return ", ".join(parts) or "not measured"


def public_sentence(found: Mapping[str, Any]) -> str:
    """Public test sets, {"en_isear.test.tsv": …}, each with its languages."""
    sets: dict[str, dict[str, Any]] = {}
    for file, values in found["public"].items():
        sets.setdefault(title_of(file[3:]), {})[file[:2]] = values
    return ", ".join(f"{title} {both(scores, 'accuracy')}"
                     for title, scores in sets.items()) or "not measured"


def title_of(file: str) -> str:
    """The name of a set: personas.tsv -> "held-out personas"."""
    stem = file.removesuffix(".tsv").removesuffix(".test")
    return TITLES.get(stem, stem)


def example_row(classifier: EmotionClassifier, text: str, meant: Sequence[str]) -> str:
    prediction = classifier(text)
    answers = {prediction.label} if prediction.confident else {prediction.label, NONE}
    answer = f"{prediction.label}, {prediction.probabilities.max():.0%}"
    unsure = "" if prediction.confident else ", not confident"
    is_right = "✓" if answers & set(meant) else "✗"
    return f"| {text} | {' or '.join(meant)} | {answer}{unsure} | {is_right} |"


# ---------------------------------------------------------------------------------- pretrained


def pretrained_filling(checkpoint: Checkpoint) -> dict[str, Any]:
    metrics, found = measured(checkpoint, "held_out", "bert evaluate --pretrained --sources")
    cloze, right = metrics.get("cloze", {}).get("languages", {}), found["next_sentence_right"]
    figures = (("masked pieces right, held-out documents", found["languages"], "masked_right"),
               ("hidden word is the first guess, `cloze.tsv`", cloze, "first"),
               ("hidden word among the first ten, `cloze.tsv`", cloze, "first_ten"))
    pairs = [f"| {name} | {values['pairs']:,} | {share(values['next_sentence_right'])} |"
             for name, values in found["sources"].items() if values["pairs"]]
    return {**common(checkpoint),
            "model_index": "\n".join(
                index_row("fill-mask", "cloze", NAMES[language], {
                    ("accuracy", "hidden word among the first ten guesses"): values["first_ten"]})
                for language, values in cloze.items()),
            "results": "\n".join(language_row(*figure) for figure in figures),
            "next_sentence": "\n".join([*pairs, f"| mean, without reviews | | {share(right)} |"]),
            "verdict": next_sentence_verdict(right),
            "examples": guesses_line(PretrainedBert(checkpoint))}


def language_row(title: str, found: Mapping[str, Mapping[str, float]], name: str) -> str:
    values = [share(found.get(language, {}).get(name)) for language in LANGUAGES]
    return f"| {title} | {' | '.join(values)} |"


def next_sentence_verdict(right: float | None) -> str:
    """What the share of next sentences right means, in words."""
    if right is None:
        return "Next sentences were not measured."
    how = ("hardly better than" if right <= CHANCE else "somewhat above" if right < CLEAR
           else "well above")
    return f"Its next-sentence head is {how} guessing."


def guesses_line(model: PretrainedBert) -> str:
    """What the weights put behind [MASK], five pieces a text."""
    return "\n".join(f"- {text} → {', '.join(piece for piece, _ in model.fill(text, 5))}"
                     for text in MASKED)
