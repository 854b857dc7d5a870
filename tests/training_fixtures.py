"""What the tests of training share: a page of text, labelled lines, a start to fine-tune from."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert.checkpoint import save_checkpoint, untrained
from bert.config import BertConfig
from bert.model import BertForPreTraining
from bert.tokenizer import WordPieceTokenizer
from bert.training.corpus import TokenCorpus, is_held_out

EXAMPLES = {
    "achievement": ("드디어 시험에 합격했다", "i finished the whole marathon today"),
    "recognition": ("팀장님이 모두 앞에서 칭찬해 주셨다", "they clapped and said my name"),
    "security": ("집에 오니 마음이 놓인다", "the results are fine, i can breathe"),
    "autonomy": ("이제부터 내 마음대로 정한다", "i answer to nobody now"),
    "connection": ("친구들이 곁에 있어 고맙다", "my family held me close"),
    "joy": ("콘서트 정말 신났다", "we laughed until it hurt"),
    "curiosity": ("저건 왜 저렇게 움직일까", "how does this even work?"),
    "sadness": ("그 사람이 떠나고 텅 비었다", "she is gone and the house is quiet"),
    "anger": ("또 약속을 어겨서 열받는다", "how dare they blame me"),
    "anxiety": ("내일 발표가 걱정돼 잠이 안 온다", "what if the test comes back bad"),
    "none": ("가게는 아홉 시에 연다", "the shop opens at nine"),
}
WORDS = "집 길 산 강 별 꿈 밤 낮 봄 눈 sun moon rain wind tree road home song book door".split()
SHAPE: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
                         "intermediate_size": 64, "max_position_embeddings": 32}
LABELLED = "label\tlang\tlevel\tpair\ttext\n"


def flags(**values: object) -> list[str]:
    """flags(hidden_size=32) -> ["--hidden-size", "32"]."""
    return [word for name, value in values.items()
            for word in ("--" + name.replace("_", "-"), str(value))]


def reports(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def read_json(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts, labelled lines and a tokenizer; read them, never write them."""
    folder = tmp_path_factory.mktemp("files")
    texts = [text for pair in EXAMPLES.values() for text in pair]

    def write(name: str, content: str) -> None:
        (folder / name).write_text(content, encoding="utf-8")

    write("page_docs.txt", "\n\n".join("\n".join(texts[i:i + 4])
                                       for i in range(0, len(texts), 2)) + "\n")
    write("page_lines.txt", "\n".join(texts) + "\n")
    write("train.tsv", LABELLED + "".join(
        f"{label}\t{language}\teasy\t\t{text}\n" for label, pair in EXAMPLES.items()
        for language, text in zip(("ko", "en"), pair, strict=True)))
    write("set.train.tsv", "so happy today\tjoy\nugh, no\tanger,sad\nfine\tcalm\n")
    write("map.tsv", "dataset\toriginal_label\tclass10\tquality\nset\tjoy\tjoy\tclean\n"
          "set\tanger\tanger\tclean\nset\tcalm\tsecurity\tweak\n")
    write("translations.tsv", "ko\ten\n정말 고마워\tthank you so much\n"
          f"{EXAMPLES['joy'][0]}\tthe concert was such fun\n")
    write("mixed.tsv", "first\tsecond\tlang\ttext\njoy\tconnection\tko\t"
          "우리 팀 이겼다! 다들 고마워\nsadness\tanger\ten\tshe left, and i hate it\n")
    write("contrast.tsv", "split\tgroup\taccepted\tlang\ttext\n"
          f"test\tshort\tjoy\tko\t{EXAMPLES['joy'][0]}\ntest\tnegation\tnone,joy\ten\tnot bad\n"
          "test\tmixed\tjoy,sadness\ten\twe laughed and she is gone\ndev\tshort\tanger\tko\t아\n")
    (folder / "tokenizer").mkdir()
    WordPieceTokenizer.train(texts, vocab_size=400).save(folder / "tokenizer")
    return folder


@pytest.fixture(scope="session")
def page_tokenizer(files: Path) -> WordPieceTokenizer:
    return WordPieceTokenizer.load(files / "tokenizer" / "tokenizer.json")


@pytest.fixture(scope="session")
def small_config(page_tokenizer: WordPieceTokenizer) -> BertConfig:
    """Two layers, width 32, nothing dropped."""
    return BertConfig(vocab_size=len(page_tokenizer), hidden_dropout_prob=0.0,
                      attention_probs_dropout_prob=0.0, **SHAPE)


@pytest.fixture(scope="session")
def small_start(tmp_path_factory: pytest.TempPathFactory, small_config: BertConfig,
                page_tokenizer: WordPieceTokenizer) -> Path:
    """An untrained checkpoint with both heads of pre-training; read it, never write it."""
    folder = tmp_path_factory.mktemp("start") / "pretrained"
    save_checkpoint(folder, untrained(small_config, BertForPreTraining, 0), page_tokenizer)
    return folder


@pytest.fixture
def pretrain_call(files: Path) -> Callable[..., list[str]]:
    """The arguments of a small pre-training: pretrain_call(run, steps=2, seed=1)."""
    def arguments(run: Path, steps: int, **changes: object) -> list[str]:
        values = {"stages": f"2:{steps * 128 / 1e6:f}:24:1e-3", "batch_tokens": 128,
                  "report_every": 1, "save_minutes": 60, "warmup": 2,
                  "precision": "float32", **SHAPE, **changes}
        return ["--tokenizer", str(files / "tokenizer"), "--sources", str(files / "page_docs.txt"),
                str(files / "page_lines.txt"), "--run-dir", str(run), "--out", str(run / "out"),
                *flags(**values)]
    return arguments


@pytest.fixture
def finetune_call(files: Path, small_start: Path) -> Callable[..., list[str]]:
    """The arguments of a small fine-tuning: finetune_call(run, epochs=2)."""
    def arguments(run: Path, **changes: object) -> list[str]:
        values = {"start_from": small_start, "train": files / "train.tsv", "run_dir": run,
                  "out": run / "out", "epochs": 1, "warmup": 2, "precision": "float32",
                  "report_every": 1, **changes}
        return flags(**values)
    return arguments


# ---------------------------------------------------------------------------------- a corpus


@pytest.fixture(scope="session")
def sentences() -> list[list[str]]:
    """Sixty documents of two to nine sentences, every sentence different, none held out."""
    rng = np.random.default_rng(0)
    documents = [[" ".join(rng.choice(WORDS, 6)) + f" {document} {place}"
                  for place in range(2 + document % 8)] for document in range(70)]
    return [document for document in documents if not is_held_out(document)][:60]


@pytest.fixture(scope="session")
def corpus_tokenizer(sentences: list[list[str]]) -> WordPieceTokenizer:
    return WordPieceTokenizer.train([s for d in sentences for s in d], vocab_size=200)


@pytest.fixture(scope="session")
def corpus_files(sentences: list[list[str]],
                 tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The first forty documents, the last twenty, and two lines: three sources."""
    folder = tmp_path_factory.mktemp("corpus")
    for name, part in (("en_tale_docs.txt", sentences[:40]), ("ko_talk_docs.txt", sentences[40:])):
        (folder / name).write_text("\n\n".join("\n".join(d) for d in part), encoding="utf-8")
    (folder / "en_note_lines.txt").write_text("alone in the rain\nsun and moon\n",
                                              encoding="utf-8")
    return [folder / name for name in ("en_tale_docs.txt", "ko_talk_docs.txt",
                                       "en_note_lines.txt")]


@pytest.fixture(scope="session")
def corpus(corpus_files: list[Path], corpus_tokenizer: WordPieceTokenizer,
           tmp_path_factory: pytest.TempPathFactory) -> TokenCorpus:
    """Those files, tokenised."""
    return TokenCorpus.prepare(tmp_path_factory.mktemp("tokens"), corpus_tokenizer,
                               corpus_files)[0]
