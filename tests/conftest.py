"""Shared fixtures: a tiny vocabulary and a tiny model, trained in seconds on the lines below.

The model knows these lines by heart and nothing else; it exists to be loaded, called and looked at.
"""

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from by_hand import ByHand

from bert.checkpoint import save_checkpoint, untrained
from bert.classifier import EmotionClassifier, Prediction
from bert.config import BertConfig
from bert.emotions import KEYS
from bert.explain.heads import describe_heads, write_heads
from bert.explain.tuned_lens import fit
from bert.model import BertForPreTraining, BertForSequenceClassification
from bert.studies.base import StudyContext
from bert.tokenizer import Encoding, WordPieceTokenizer

pytest_plugins = ("page_fixtures", "training_fixtures")
ROOT = Path(__file__).parent.parent
LINES = {
    "achievement": ("드디어 마라톤을 완주했다", "I finally fixed the bug after three days"),
    "recognition": ("팀장님이 모두 앞에서 칭찬해 주셨다", "Everyone stood up and clapped for me"),
    "security": ("집에 오니 마음이 놓인다", "The results are good and I can breathe again"),
    "autonomy": ("이제 내 일정은 내가 정한다", "I quit to do it my own way"),
    "connection": ("친구들이 끝까지 곁에 있어 줬다", "The cat fell asleep on my lap"),
    "joy": ("첫눈이 와서 신나게 뛰어다녔다", "We laughed all night at the concert"),
    "curiosity": ("이건 도대체 어떻게 움직이는 걸까", "I wonder what is behind that door"),
    "sadness": ("할머니가 너무 보고 싶다", "She left and the house is empty"),
    "anger": ("약속을 또 어기다니 정말 화가 난다", "They blamed me for their own mistake"),
    "anxiety": ("내일 결과가 나오는데 잠이 안 온다", "What if the money runs out"),
}


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Importing the app leaves event loops of Gradio to the collector. What they warn of when they
    go must not come while a test file is parsed, which CPython 3.11 takes for an error."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(autouse=True)
def the_same_random_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def lines() -> dict[str, tuple[str, ...]]:
    """The texts that the tiny model learned, by class."""
    return LINES


@pytest.fixture(scope="session")
def texts() -> list[str]:
    return [text for group in LINES.values() for text in group]


@pytest.fixture(scope="session")
def tokenizer(texts: list[str]) -> WordPieceTokenizer:
    return WordPieceTokenizer.train(texts, vocab_size=565)


@pytest.fixture(scope="session")
def tiny_config(tokenizer: WordPieceTokenizer) -> BertConfig:
    """Two layers, width 32, two heads, ten classes."""
    return BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=40, id2label=KEYS, confidence_threshold=0.3)


@pytest.fixture(scope="session")
def checkpoints_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where both checkpoints lie side by side, as those of the project do."""
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="session")
def emotion_folder(checkpoints_folder: Path, tokenizer: WordPieceTokenizer,
                   tiny_config: BertConfig) -> Path:
    """A checkpoint that answers every line of `lines` with its class; read it, never write it."""
    model = untrained(tiny_config, BertForSequenceClassification)
    labels = [key for key, group in LINES.items() for _ in group]
    batch = tokenizer.pad(tokenizer.encode_many([t for group in LINES.values() for t in group]))
    ids, mask = torch.from_numpy(batch.ids), torch.from_numpy(batch.attention_mask)
    targets = torch.tensor([KEYS.index(label) for label in labels])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(model(ids, None, mask, need_weights=False).logits, targets).backward()
        optimizer.step()
    folder = checkpoints_folder / "emotion"
    save_checkpoint(folder, model, tokenizer)
    return folder


@pytest.fixture(scope="session")
def shipped() -> EmotionClassifier:
    """The checkpoint that ships with the project."""
    return EmotionClassifier.load(ROOT / "checkpoints" / "emotion")


@pytest.fixture(scope="session")
def pretrained_folder(checkpoints_folder: Path, tokenizer: WordPieceTokenizer,
                      tiny_config: BertConfig) -> Path:
    """An untrained checkpoint with the MLM and NSP heads and no classifier."""
    folder = checkpoints_folder / "pretrained"
    save_checkpoint(folder, untrained(tiny_config, BertForPreTraining), tokenizer)
    return folder


@pytest.fixture(scope="session")
def classifier(emotion_folder: Path) -> EmotionClassifier:
    return EmotionClassifier.load(emotion_folder)


@pytest.fixture(scope="session")
def prediction(classifier: EmotionClassifier) -> Prediction:
    """Of words of several pieces."""
    return classifier("팀장님이라면 모두 칭찬해주셨다")


@pytest.fixture(scope="session")
def encoding(prediction: Prediction) -> Encoding:
    return prediction.encoding


@pytest.fixture
def context(classifier: EmotionClassifier) -> StudyContext:
    """What the studies of the tiny model share."""
    return StudyContext(classifier)


@pytest.fixture
def served_context(classifier: EmotionClassifier, pretrained_folder: Path) -> StudyContext:
    """The stages as the served page has them."""
    return StudyContext(classifier)


@pytest.fixture
def surveyed_folder(emotion_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny checkpoint with heads.json and a tuned lens."""
    folder = tmp_path / "emotion"
    shutil.copytree(emotion_folder, folder)
    copy = EmotionClassifier.load(folder)
    write_heads(folder, describe_heads(copy, {
        language: [group[place] for group in LINES.values()]
        for place, language in enumerate(("ko", "en"))}))
    fit(copy, [text for group in LINES.values() for text in group])[0].save(folder)
    return folder


@pytest.fixture(scope="session")
def deeper(tmp_path_factory: pytest.TempPathFactory, tokenizer: WordPieceTokenizer,
           tiny_config: BertConfig) -> EmotionClassifier:
    """Four untrained pre-norm layers that take the mean of all tokens."""
    config = replace(tiny_config, num_hidden_layers=4, norm="pre", pooling="mean",
                     id2label=("yes", "no"))
    folder = tmp_path_factory.mktemp("deeper")
    save_checkpoint(folder, untrained(config, BertForSequenceClassification), tokenizer)
    return EmotionClassifier.load(folder)


@pytest.fixture(scope="session", params=["post", "pre", "mean"])
def any_context(request: pytest.FixtureRequest, tiny_config: BertConfig,
                tokenizer: WordPieceTokenizer,
                tmp_path_factory: pytest.TempPathFactory) -> StudyContext:
    """Checkpoints in which no weight has a value that could hide a mistake."""
    changes = {"pooling": "mean"} if request.param == "mean" else {"norm": request.param}
    model = untrained(replace(tiny_config, **changes), BertForSequenceClassification)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    folder = tmp_path_factory.mktemp("any") / request.param
    save_checkpoint(folder, model, tokenizer)
    return StudyContext(EmotionClassifier.load(folder))


@pytest.fixture
def by_hand(any_context: StudyContext) -> ByHand:
    """The first text of `lines` through those weights, computed in numpy."""
    classifier = any_context.classifier
    return ByHand(classifier.checkpoint.folder, classifier.config,
                  classifier.encode(LINES["achievement"][0]).ids)


@pytest.fixture(scope="session")
def lively_folder(tmp_path_factory: pytest.TempPathFactory, tokenizer: WordPieceTokenizer,
                  tiny_config: BertConfig) -> Path:
    """A pre-trained stage with opinions: wide random weights, another seed than the untrained."""
    folder = tmp_path_factory.mktemp("lively") / "pretrained"
    config = replace(tiny_config, initializer_range=0.3)
    save_checkpoint(folder, untrained(config, BertForPreTraining, seed=7), tokenizer)
    return folder


@pytest.fixture(scope="session")
def lively_context(classifier: EmotionClassifier, lively_folder: Path) -> StudyContext:
    return StudyContext(classifier, lively_folder)


@pytest.fixture(scope="session")
def lively_theirs(lively_folder: Path):
    """The same stage as transformers reads it."""
    import transformers
    return transformers.BertForPreTraining.from_pretrained(lively_folder).eval()


@pytest.fixture(scope="session")
def theirs(emotion_folder: Path, classifier: EmotionClassifier):
    """What transformers finds in our folder: hidden states and attention of a line."""
    import transformers
    model = transformers.AutoModel.from_pretrained(emotion_folder, attn_implementation="eager",
                                                   add_pooling_layer=False).eval()
    ids = torch.tensor([classifier.encode(LINES["anger"][1]).ids])
    with torch.inference_mode():
        return model(ids, output_hidden_states=True, output_attentions=True)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Finished]:
    """Call a command in this process: call("predict", "text", "--json")."""
    def call(command: str, *arguments: object) -> Finished:
        capsys.readouterr()
        try:
            main = import_module("app" if command == "app" else f"bert.commands.{command}").main
            main([str(argument) for argument in arguments])
            code = 0
        except SystemExit as end:
            code = end.code or 0
        return Finished(code, *capsys.readouterr())
    return call


@pytest.fixture
def run() -> Callable[..., Finished]:
    """Run a command in a process of its own: run("predict", "--input", "-", stdin="…")."""
    def run(command: str, *arguments: object, stdin: str | bytes = b"", **settings) -> Finished:
        done = subprocess.run(
            [sys.executable, "-m", "bert", command, *map(str, arguments)], cwd=ROOT,
            capture_output=True, input=stdin.encode() if isinstance(stdin, str) else stdin,
            env={**os.environ, "PYTHONUTF8": "1", **settings})
        return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())
    return run
