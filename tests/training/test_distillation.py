from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bert.checkpoint import load_checkpoint, save_checkpoint, untrained
from bert.emotions import KEYS
from bert.errors import UserError
from bert.model import BertForSequenceClassification, BertModel, BertOutput
from bert.training import distillation
from bert.training.corpus import text_mark
from bert.training.distillation import (
    CONTRAST,
    SentenceVectors,
    VectorHeads,
    bert_vectors,
    mean_vector,
    read_sentences,
)

TEXTS = ["오늘 좋았다", "thank you", "비가 온다", "so much", "고마워"]


class Reader:
    """A teacher that remembers what it was asked to read."""

    def __init__(self, most: int = 100) -> None:
        self.read: list[str] = []
        self.most = most

    def __call__(self, texts):
        if len(self.read) + len(texts) > self.most:
            raise KeyboardInterrupt
        self.read += texts
        return np.stack([self.row(text) for text in texts])

    @staticmethod
    def row(text):
        rows = np.random.default_rng(text_mark(text) % 1_000).normal(size=4)
        return (rows / np.linalg.norm(rows)).astype(np.float16)


# ---------------------------------------------------------------------------------- vectors


def test_a_vector_is_found_by_the_mark_of_its_text(tmp_path):
    vectors = read_sentences(tmp_path / "v", "t", Reader(), {text: text for text in TEXTS})
    assert (vectors.width, len(vectors.marks)) == (4, 5)
    found = vectors.of(np.array([text_mark(text) for text in TEXTS], dtype=np.uint64))
    assert found.dtype == np.float32
    assert np.array_equal(found, np.stack([Reader.row(text) for text in TEXTS]))


def test_a_text_that_no_teacher_has_read_has_zeros(tmp_path):
    vectors = read_sentences(tmp_path / "v", "t", Reader(), {"thank you": "thank you"})
    marks = np.array([0, text_mark("unread"), text_mark("thank you"), 2**64 - 1], dtype=np.uint64)
    found = vectors.of(marks)
    assert found[2].any() and not found[[0, 1, 3]].any()


def test_a_korean_line_has_the_vector_of_its_translation(tmp_path):
    vectors = read_sentences(tmp_path / "v", "t", reader := Reader(),
                             {"고마워": "thank you", "thank you": "thank you"})
    one, other = vectors.of(np.array([text_mark("고마워"), text_mark("thank you")],
                                     dtype=np.uint64))
    assert np.array_equal(one, other) and one.any()
    assert reader.read == ["thank you"]


def test_no_line_is_read_twice_by_the_same_teacher(tmp_path):
    for texts, new in ((TEXTS[:2], TEXTS[:2]), (TEXTS, TEXTS[2:]), (TEXTS, [])):
        reader = Reader()
        vectors = read_sentences(tmp_path / "v", "t", reader, {text: text for text in texts})
        assert sorted(reader.read) == sorted(new)
        assert len(vectors.marks) == len(texts)


def test_a_reading_that_was_cut_off_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(distillation, "AT_ONCE", 2)
    meanings = {text: text for text in TEXTS}
    first = Reader(most=4)
    with pytest.raises(KeyboardInterrupt):
        read_sentences(tmp_path / "v", "t", first, meanings)
    second = Reader()
    vectors = read_sentences(tmp_path / "v", "t", second, meanings)
    assert len(first.read) == 4 and len(second.read) == 1
    assert sorted(first.read + second.read) == sorted(TEXTS)
    assert np.array_equal(vectors.of(np.array([text_mark(TEXTS[0])], dtype=np.uint64))[0],
                          Reader.row(TEXTS[0]))


def test_another_teacher_reads_everything_anew(tmp_path):
    read_sentences(tmp_path / "v", "one", Reader(), {"thank you": "thank you"})
    read_sentences(tmp_path / "v", "other", reader := Reader(), {"thank you": "thank you"})
    assert reader.read == ["thank you"]


def test_a_folder_without_vectors_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="has no vectors: make them with `python -m bert distill`"):
        SentenceVectors.open(tmp_path)


# ---------------------------------------------------------------------------------- teachers


@pytest.mark.parametrize("kind", [BertModel, BertForSequenceClassification])
def test_a_network_teaches_its_mean_token_and_a_classifier_what_it_decides_by(
        kind, small_config, page_tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(distillation, "has_bfloat16", lambda: False)  # the same on any processor
    config = replace(small_config, initializer_range=0.2, id2label=KEYS)
    save_checkpoint(tmp_path / "teacher", untrained(config, kind, 2), page_tokenizer)
    teacher = load_checkpoint(tmp_path / "teacher")
    texts = ["드디어 시험에 합격했다", "no", "we laughed until it hurt " * 20]
    found = bert_vectors(teacher, texts)
    assert found.shape == (3, 32) and found.dtype == np.float16
    for text, vector in zip(texts, found, strict=True):
        ids = page_tokenizer.encode(text, max_length=32).ids
        with torch.inference_mode():
            output = getattr(teacher.model, "bert", teacher.model)(torch.tensor([ids]))
        expected = output.hidden.mean(dim=1) if kind is BertModel else output.pooled
        np.testing.assert_allclose(vector, F.normalize(expected, dim=-1)[0], atol=1e-3)


def test_padding_is_not_in_the_mean():
    hidden = torch.arange(12.0).view(1, 4, 3)
    mask = torch.tensor([[True, True, False, False]])
    assert torch.equal(mean_vector(hidden, mask), hidden[:, :2].mean(dim=1))
    assert torch.equal(mean_vector(hidden, None), hidden.mean(dim=1))


# ---------------------------------------------------------------------------------- learning


def perfect(targets):
    """Heads that pass on what they get, and an output that holds the targets."""
    heads = VectorHeads(targets.shape[1], targets.shape[1])
    with torch.no_grad():
        for head in (heads.from_pooled, heads.from_mean):
            head.weight.copy_(torch.eye(targets.shape[1]))
            head.bias.zero_()
    return heads, BertOutput(targets[:, None].repeat(1, 3, 1), targets, (), ())


def test_the_loss_of_a_perfect_student_is_zero():
    targets = F.normalize(torch.randn(6, 8), dim=-1)
    heads, output = perfect(targets)
    sums = heads.losses(output, None, targets)
    for name in ("pooled_loss", "mean_loss"):
        total, count = sums[name]
        assert total.item() == pytest.approx(0.0, abs=1e-5) and count == 6


def test_no_student_tells_lines_apart_better_than_the_teacher():
    """The contrast of a perfect student is the teacher's own uncertainty, its smallest value."""
    targets = F.normalize(torch.randn(6, 8), dim=-1)
    heads, output = perfect(targets)
    truth = (targets @ targets.T * CONTRAST).softmax(dim=-1)
    entropy = -(truth * truth.log()).sum().item()
    least = heads.losses(output, None, targets)["contrast_loss"][0].item()
    assert least == pytest.approx(0.1 * entropy, rel=1e-4)
    worse = replace(output, pooled=targets + 0.3 * torch.randn(6, 8))
    assert heads.losses(worse, None, targets)["contrast_loss"][0].item() > least


def test_only_lines_with_a_vector_are_learned():
    targets = F.normalize(torch.randn(4, 8), dim=-1)
    heads, output = perfect(targets)
    some = targets.clone()
    some[[1, 3]] = 0.0
    sums = heads.losses(replace(output, pooled=torch.where(some.any(-1, keepdim=True), targets,
                                                           torch.randn(4, 8))), None, some)
    assert sums["pooled_loss"][0].item() == pytest.approx(0.0, abs=1e-5)
    assert sums["pooled_loss"][1] == 2
