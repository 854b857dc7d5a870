import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from bert.checkpoint import (
    load_checkpoint,
    save_checkpoint,
    to_hugging_face,
    untrained,
)
from bert.classifier import EmotionClassifier
from bert.config import BertConfig
from bert.emotions import KEYS
from bert.errors import UserError
from bert.model import BertForPreTraining, BertForSequenceClassification, BertModel
from bert.tokenizer import WordPieceTokenizer

ROOT = Path(__file__).parent.parent
TEXTS = ["드디어 마라톤을 완주했다", "What if the money runs OUT?!", "😀 é 漢 [MASK]", "i"]
OUR_CLASSES = {"BertModel": BertModel, "BertForMaskedLM": BertForPreTraining,
               "BertForPreTraining": BertForPreTraining,
               "BertForSequenceClassification": BertForSequenceClassification}


def copy(folder: Path, to: Path, **changes: object) -> Path:
    """A copy of a checkpoint with other settings in its config.json; None takes a key out."""
    to.mkdir()
    for path in folder.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    values = json.loads((to / "config.json").read_text(encoding="utf-8")) | changes
    values = {key: value for key, value in values.items() if value is not None}
    (to / "config.json").write_text(json.dumps(values), encoding="utf-8")
    return to


def complaint(folder: Path) -> str:
    """The one sentence with which a folder is refused."""
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        load_checkpoint(folder)
    sentence = str(caught.value)
    assert sentence and "\n" not in sentence
    return sentence


def inputs(tokenizer: WordPieceTokenizer) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    batch = tokenizer.pad(tokenizer.encode_many(TEXTS, TEXTS[::-1]))
    return (torch.from_numpy(batch.ids), torch.from_numpy(batch.segment_ids),
            torch.from_numpy(batch.attention_mask).long())


def theirs_saved(name: str, folder: Path, tokenizer: WordPieceTokenizer,
                 **settings: object) -> torch.nn.Module:
    """A folder of transformers: their model, saved by them, with a tokenizer saved by them."""
    model = getattr(transformers, name)(transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=40, max_position_embeddings=48, initializer_range=0.2, **settings)).eval()
    model.save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend, pad_token="[PAD]", unk_token="[UNK]",
        cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]").save_pretrained(folder)
    return model


# ---------------------------------------------------------------------------------- ours to theirs


def test_the_folder_holds_what_the_contract_lists(emotion_folder):
    assert sorted(path.name for path in emotion_folder.iterdir()) == [
        "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    config = json.loads((emotion_folder / "config.json").read_text(encoding="utf-8"))
    assert config["model_type"] == "bert" and config["dtype"] == "float32"
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["confidence_threshold"] == 0.3
    assert list(config["id2label"].values()) == list(KEYS)
    with safe_open(emotion_folder / "model.safetensors", "pt") as file:
        assert {"bert.encoder.layer.0.attention.self.query.weight", "classifier.weight",
                "bert.encoder.layer.1.output.LayerNorm.bias"} <= set(file.keys())


def test_everybody_may_read_a_checkpoint(emotion_folder):
    for path in (emotion_folder, emotion_folder / "model.safetensors"):
        assert path.stat().st_mode & 0o444 == 0o444


def test_a_round_trip_gives_identical_weights_and_logits(classifier, tmp_path):
    save_checkpoint(tmp_path / "again", classifier.model, classifier.tokenizer)
    again = EmotionClassifier.load(tmp_path / "again")
    assert again.config == classifier.config
    for name, value in classifier.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], value)
    for text in TEXTS:
        assert (again(text).probabilities == classifier(text).probabilities).all()


def test_transformers_loads_our_folder_and_gives_the_same_logits(classifier, emotion_folder):
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(emotion_folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(emotion_folder)
    encoded = tokenizer(TEXTS, TEXTS[::-1], padding=True, return_tensors="pt")
    ids, segment_ids, mask = inputs(classifier.tokenizer)
    assert torch.equal(encoded["input_ids"], ids)
    assert torch.equal(encoded["token_type_ids"], segment_ids)
    assert torch.equal(encoded["attention_mask"], mask)
    with torch.inference_mode():
        expected, found = theirs(**encoded).logits, classifier.model(ids, segment_ids, mask).logits
    assert (found - expected).abs().max().item() < 1e-5
    assert theirs.config.id2label == dict(enumerate(KEYS)) and theirs.dtype == torch.float32
    assert theirs.config.confidence_threshold == 0.3


def test_both_directions_keep_every_bit(classifier, emotion_folder, tmp_path):
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(emotion_folder)
    ours = to_hugging_face(classifier.model.state_dict())
    for name, value in theirs.state_dict().items():
        assert torch.equal(value, ours.pop(name)), name
    assert not ours
    theirs.save_pretrained(tmp_path / "theirs")
    transformers.AutoTokenizer.from_pretrained(emotion_folder).save_pretrained(tmp_path / "theirs")
    back = load_checkpoint(tmp_path / "theirs")
    assert back.config == classifier.config
    for name, value in classifier.model.state_dict().items():
        assert torch.equal(back.model.state_dict()[name], value), name
    assert back.tokenizer.encode_many(TEXTS) == classifier.tokenizer.encode_many(TEXTS)


def test_the_pipeline_of_transformers_works_on_our_folder(classifier, emotion_folder, texts):
    pipeline = transformers.pipeline("text-classification", model=str(emotion_folder))
    answers = pipeline(texts, top_k=None)
    for text, scores in zip(texts, answers, strict=True):
        expected = classifier(text).ranked()
        assert [score["label"] for score in scores] == [key for key, _ in expected]
        for score, (_, probability) in zip(scores, expected, strict=True):
            assert score["score"] == pytest.approx(probability, abs=1e-5)
    long = "the money runs out " * 50
    cut = pipeline(long, truncation=True)[0]
    assert cut["label"] == classifier(long).label and classifier(long).truncated


# bertviz reads its scripts with open(…).read() and leaves the closing to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_bertviz_draws_our_folder(classifier, emotion_folder):
    import bertviz

    theirs = transformers.AutoModel.from_pretrained(emotion_folder, output_attentions=True).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(emotion_folder)
    ids = tokenizer.encode("드디어 마라톤을 완주했다", return_tensors="pt")
    attention = theirs(ids).attentions
    tokens = tokenizer.convert_ids_to_tokens(ids[0])
    prediction = classifier("드디어 마라톤을 완주했다")
    assert tokens == prediction.tokens
    assert abs(torch.cat(attention).detach().numpy() - prediction.attentions).max() < 1e-5
    for view in (bertviz.head_view, bertviz.model_view):
        html = view(attention, tokens, html_action="return").data
        assert all(json.dumps(token)[1:-1] in html for token in tokens)


def test_our_pretrained_folder_is_a_bert_for_pre_training(pretrained_folder):
    ours = load_checkpoint(pretrained_folder)
    theirs = transformers.BertForPreTraining.from_pretrained(pretrained_folder).eval()
    ids, segment_ids, mask = inputs(ours.tokenizer)
    with torch.inference_mode():
        found = ours.model(ids, segment_ids, mask)
        expected = theirs(input_ids=ids, token_type_ids=segment_ids, attention_mask=mask)
    assert (found.mlm_logits - expected.prediction_logits).abs().max().item() < 1e-5
    assert (found.nsp_logits - expected.seq_relationship_logits).abs().max().item() < 1e-5
    assert ours.has_mlm and ours.has_nsp and not ours.has_classifier and ours.missing == ()


@pytest.mark.parametrize("change", [
    {"norm": "pre"}, {"positions": "sinusoidal"}, {"pooling": "mean"}])
def test_what_hugging_face_cannot_express_is_for_us_alone(change, tiny_config, tokenizer, tmp_path):
    model = untrained(replace(tiny_config, **change), BertForSequenceClassification)
    save_checkpoint(tmp_path / "own", model, tokenizer)
    loaded = load_checkpoint(tmp_path / "own")
    ids, segment_ids, mask = inputs(tokenizer)
    assert torch.equal(loaded.model(ids, segment_ids, mask).logits,
                       model(ids, segment_ids, mask).logits)
    assert loaded.config == model.config
    with pytest.raises(ValueError, match="scratch-bert"):
        transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "own")


# ---------------------------------------------------------------------------------- theirs to ours


@pytest.mark.parametrize("name", OUR_CLASSES)
def test_a_folder_of_transformers_loads_here_and_gives_the_same_outputs(name, tokenizer, tmp_path):
    theirs = theirs_saved(name, tmp_path / "theirs", tokenizer, num_labels=5)
    ours = load_checkpoint(tmp_path / "theirs")
    assert type(ours.model) is OUR_CLASSES[name]
    ids, segment_ids, mask = inputs(tokenizer)
    with torch.inference_mode():
        expected = theirs(input_ids=ids, token_type_ids=segment_ids, attention_mask=mask)
        found = ours.model(ids, segment_ids, mask)
    pairs = {
        "BertModel": [("hidden", "last_hidden_state"), ("pooled", "pooler_output")],
        "BertForMaskedLM": [("mlm_logits", "logits")],
        "BertForPreTraining": [("mlm_logits", "prediction_logits"),
                               ("nsp_logits", "seq_relationship_logits")],
        "BertForSequenceClassification": [("logits", "logits")],
    }[name]
    for mine, reference in pairs:
        error = (getattr(found, mine) - getattr(expected, reference)).abs().max().item()
        assert error < 2e-5, mine
    saved = to_hugging_face(ours.model.state_dict())
    for key, value in theirs.state_dict().items():
        assert key.startswith("cls.predictions.decoder") or torch.equal(saved[key], value), key


@pytest.mark.parametrize("name", OUR_CLASSES)
def test_a_folder_of_transformers_comes_back_to_the_bit(name, tokenizer, tmp_path):
    theirs = theirs_saved(name, tmp_path / "theirs", tokenizer, num_labels=5)
    ours = load_checkpoint(tmp_path / "theirs")
    save_checkpoint(tmp_path / "ours", ours.model, ours.tokenizer)
    again = getattr(transformers, name).from_pretrained(tmp_path / "ours")
    for key, value in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[key], value), key


def test_a_masked_language_model_without_the_other_heads_says_which(tokenizer, tmp_path):
    theirs_saved("BertForMaskedLM", tmp_path / "theirs", tokenizer)
    ours = load_checkpoint(tmp_path / "theirs")
    assert ours.missing == ("nsp", "pooler")
    assert ours.has_mlm and not ours.has_nsp and not ours.has_classifier


def test_two_classes_without_names_are_those_of_transformers(tokenizer, tmp_path):
    theirs = theirs_saved("BertForSequenceClassification", tmp_path / "theirs", tokenizer)
    assert "id2label" not in json.loads((tmp_path / "theirs" / "config.json").read_text())
    prediction = EmotionClassifier.load(tmp_path / "theirs")("드디어")
    assert prediction.keys == tuple(theirs.config.id2label.values()) == ("LABEL_0", "LABEL_1")


def test_old_names_and_buffers_are_understood(emotion_folder, classifier, tmp_path):
    old = copy(emotion_folder, tmp_path / "old")
    weights = load_file(old / "model.safetensors")
    renamed = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
        "LayerNorm.bias", "LayerNorm.beta"): value for name, value in weights.items()}
    assert set(renamed) != set(weights)
    renamed["bert.embeddings.position_ids"] = torch.arange(40)[None]
    save_file(renamed, old / "model.safetensors")
    loaded = load_checkpoint(old).model.state_dict()
    assert all(torch.equal(loaded[name], value)
               for name, value in classifier.model.state_dict().items())


# ---------------------------------------------------------------------------------- precision


def test_half_precision_is_on_disk_only(classifier, tmp_path):
    save_checkpoint(tmp_path / "half", classifier.model, classifier.tokenizer, half=True)
    with safe_open(tmp_path / "half" / "model.safetensors", "pt") as file:
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {"F16"}
    loaded = load_checkpoint(tmp_path / "half").model.state_dict()
    for name, value in classifier.model.state_dict().items():
        assert loaded[name].dtype == torch.float32
        assert torch.equal(loaded[name], value.half().float())
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "half")
    assert theirs.dtype == torch.float32


def test_the_fingerprint_names_the_weights(emotion_folder, pretrained_folder):
    first, second = load_checkpoint(emotion_folder), load_checkpoint(pretrained_folder)
    assert first.digest() == load_checkpoint(emotion_folder).digest() != second.digest()
    assert len(first.digest()) == 12


# ---------------------------------------------------------------------------------- a kill

SAVING = """
import os, sys
from pathlib import Path
import torch
from bert.checkpoint import load_checkpoint, save_checkpoint

torch.set_num_threads(1)
new, folder = load_checkpoint(sys.argv[1]), Path(sys.argv[2])
for line in sys.stdin:
    stop_at = int(line)
    child = os.fork()
    if child == 0:
        events = 0

        def hook(name, arguments):
            global events
            if not name.startswith(("open", "os.", "shutil.", "ctypes.dlsym", "tempfile.")):
                return
            events += 1
            if events == stop_at:
                os.write(1, b"%d at %s\\n" % (os.getpid(), name.encode()))
                os.read(0, 1)

        sys.addaudithook(hook)
        save_checkpoint(folder, new.model, new.tokenizer)
        os.write(1, b"0 finished\\n")
        os._exit(0)
    os.waitpid(child, 0)
    print("dead", flush=True)
"""


@contextmanager
def saving(new: Path, folder: Path) -> Iterator[Callable[[int], str | None]]:
    """A process whose forked children save; `kill_at(n)` kills one at its n-th step on the disk and
    returns which step that was, or None if it had finished before."""
    with subprocess.Popen(
            [sys.executable, "-u", "-W", "ignore", "-c", SAVING, str(new), str(folder)], cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"}) as process:

        def kill_at(step: int) -> str | None:
            process.stdin.write(f"{step}\n")
            process.stdin.flush()
            number, _, event = process.stdout.readline().strip().partition(" at ")
            if event:
                os.kill(int(number), signal.SIGKILL)
            assert process.stdout.readline() == "dead\n"
            return event or None

        yield kill_at


@pytest.fixture
def two_folders(tmp_path, tiny_config, tokenizer, texts):
    """An old and a new checkpoint that differ in every file."""
    old = untrained(replace(tiny_config, confidence_threshold=0.1), BertForSequenceClassification)
    save_checkpoint(tmp_path / "old", old, tokenizer)
    other = WordPieceTokenizer.train(texts, vocab_size=300)
    new = untrained(replace(tiny_config, vocab_size=300, hidden_size=64, confidence_threshold=0.9),
                    BertForSequenceClassification)
    save_checkpoint(tmp_path / "new", new, other)
    return tmp_path / "old", tmp_path / "new"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_kill_while_saving_leaves_the_old_folder_or_the_new_one(two_folders, tmp_path):
    old, new = two_folders
    folder, seen, event = tmp_path / "place" / "emotion", [], ""
    with saving(new, folder) as kill_at:
        while event is not None:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(old, folder)
            for left in folder.parent.glob(".*"):
                shutil.rmtree(left)
            event = kill_at(len(seen) + 1)
            whole = [contents(path) for path in folder.parent.iterdir()]
            if folder.exists():
                assert contents(folder) in (contents(old), contents(new)), f"half after {event}"
                load_checkpoint(folder)
                seen.append("new" if contents(folder) == contents(new) else "old")
            else:  # between the two moves: both stand beside it, whole
                assert contents(old) in whole and contents(new) in whole
                seen.append("beside")
    assert seen.index("beside") > 8 and seen.count("beside") == 1
    assert set(seen[:seen.index("beside")]) == {"old"}
    assert set(seen[seen.index("beside") + 1:]) == {"new"}  # killed after the exchange as well


def test_a_kill_while_saving_for_the_first_time_leaves_nothing_or_all(two_folders, tmp_path):
    _, new = two_folders
    folder, seen, event = tmp_path / "place" / "emotion", [], ""
    with saving(new, folder) as kill_at:
        while event is not None:
            event = kill_at(len(seen) + 1)
            seen.append(folder.exists())
            assert not folder.exists() or contents(folder) == contents(new)
            shutil.rmtree(folder, ignore_errors=True)
    assert seen.index(True) > 8 and all(seen[seen.index(True):])


def test_a_full_disk_leaves_the_old_folder_untouched(classifier, tmp_path):
    folder = tmp_path / "emotion"
    save_checkpoint(folder, classifier.model, classifier.tokenizer)
    before = contents(folder)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, limits[1]))
    try:
        with pytest.raises(UserError, match="emotion could not be written .* before is untouched"):
            save_checkpoint(folder, untrained(classifier.config, BertForSequenceClassification),
                            classifier.tokenizer)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert contents(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["emotion"]


def test_a_move_that_fails_brings_the_old_folder_back(classifier, tmp_path, monkeypatch):
    save_checkpoint(tmp_path / "emotion", classifier.model, classifier.tokenizer)
    before, rename = contents(tmp_path / "emotion"), Path.rename

    def refuse(path, target):
        if target == tmp_path / "emotion" and not path.name.endswith(".old"):
            raise OSError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(UserError, match="Permission denied.*what was there before is untouched"):
        save_checkpoint(tmp_path / "emotion", classifier.model, classifier.tokenizer, half=True)
    assert contents(tmp_path / "emotion") == before
    assert [path.name for path in tmp_path.iterdir()] == ["emotion"]


def test_a_checkpoint_can_be_replaced_by_a_smaller_one(classifier, tmp_path):
    save_checkpoint(tmp_path / "emotion", classifier.model, classifier.tokenizer)
    save_checkpoint(tmp_path / "emotion", classifier.model, classifier.tokenizer, half=True)
    assert [path.name for path in tmp_path.iterdir()] == ["emotion"]
    assert (tmp_path / "emotion" / "model.safetensors").stat().st_size < 100_000
    load_checkpoint(tmp_path / "emotion")


def test_saving_again_leaves_no_other_folder_behind(classifier, tmp_path):
    for number in range(3):
        save_checkpoint(tmp_path / "emotion", classifier.model, classifier.tokenizer,
                        files={f"note{number}.md": "written\n"})
    assert [path.name for path in tmp_path.iterdir()] == ["emotion"]
    assert (tmp_path / "emotion" / "note2.md").read_text() == "written\n"
    assert not (tmp_path / "emotion" / "note1.md").exists()


def test_saving_through_a_link_keeps_the_link(classifier, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    save_checkpoint(tmp_path / "link", classifier.model, classifier.tokenizer)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real" / "config.json").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_other_peoples_files_are_never_deleted(classifier, tmp_path):
    notes, above, file = tmp_path / "notes", tmp_path / "above", tmp_path / "file"
    notes.mkdir()
    (notes / "diary.txt").write_text("dear diary")
    save_checkpoint(above / "emotion", classifier.model, classifier.tokenizer)
    file.write_text("a file")
    for folder, name in ((notes, "diary.txt"), (above, "emotion")):
        with pytest.raises(ValueError, match=f"{folder.name} holds {name}, which would be deleted"):
            save_checkpoint(folder, classifier.model, classifier.tokenizer)
    with pytest.raises(UserError, match="file is a file: choose a folder"):
        save_checkpoint(file, classifier.model, classifier.tokenizer)
    assert (notes / "diary.txt").read_text() == "dear diary" and file.read_text() == "a file"
    load_checkpoint(above / "emotion")


# ---------------------------------------------------------------------------------- broken folders


def test_a_folder_that_is_not_there_is_named(tmp_path):
    assert complaint(tmp_path / "nowhere") == (
        f"{tmp_path / 'nowhere'} is not a folder: expected a checkpoint with config.json, "
        "model.safetensors and tokenizer.json")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(name, emotion_folder, tmp_path):
    folder = copy(emotion_folder, tmp_path / "broken")
    (folder / name).unlink()
    assert complaint(folder).startswith(f"{folder / name} is missing: a checkpoint needs it")


def test_a_pickle_is_never_loaded(emotion_folder, tmp_path):
    folder = copy(emotion_folder, tmp_path / "pickled")
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    sentence = complaint(folder)
    assert str(folder / "model.safetensors") in sentence
    assert "pytorch_model.bin is a pickle file, which is never loaded: save" in sentence


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 100, 5_000, -1])
def test_truncated_weights_are_named(keep, emotion_folder, tmp_path):
    folder = copy(emotion_folder, tmp_path / "broken")
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:keep])
    assert complaint(folder).startswith(f"{folder / 'model.safetensors'} cannot be read as safe")


@pytest.mark.parametrize("header", [
    b"\xff" * 8, b"\x00" * 8, b"\x10" + b"\x00" * 7 + b"not json at all!"])
def test_corrupted_weights_are_named(header, emotion_folder, tmp_path):
    folder = copy(emotion_folder, tmp_path / "broken")
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(header + whole[len(header):])
    assert complaint(folder).startswith(f"{folder / 'model.safetensors'} cannot be read as safe")


@pytest.mark.parametrize(("name", "content"), [
    ("config.json", b"{"), ("config.json", b""), ("config.json", b"[1]"), ("config.json", b"\xff"),
    ("tokenizer.json", b"{"), ("tokenizer.json", b""), ("tokenizer.json", b"\xff\xfe")])
def test_a_corrupted_text_file_is_named(name, content, emotion_folder, tmp_path):
    folder = copy(emotion_folder, tmp_path / "broken")
    (folder / name).write_bytes(content)
    assert complaint(folder).startswith(str(folder / name))


@pytest.mark.parametrize(("changes", "parts"), [
    ({"hidden_size": 64}, ["word_embeddings.weight is (", "32)", "asks for (", "64)"]),
    ({"num_hidden_layers": 3}, ["has no bert.encoder.layer.2.", "config.json asks for"]),
    ({"num_hidden_layers": 1}, ["holds bert.encoder.layer.1.", "config.json does not describe"]),
    ({"max_position_embeddings": 512}, ["position_embeddings.weight is (40, 32)", "(512, 32)"]),
    ({"intermediate_size": 65}, ["intermediate.dense.weight is (64, 32)", "(65, 32)"]),
    ({"id2label": {"0": "a", "1": "b"}}, ["classifier.weight is (10, 32)", "(2, 32)"]),
    ({"id2label": None}, ["classifier.weight is (10, 32)", "names no classes: add id2label"]),
    ({"num_hidden_layers": 256, "hidden_size": 16_384, "num_attention_heads": 256},
     ["word_embeddings.weight is (", "16384)"]),
])
def test_weights_that_do_not_fit_the_config_are_named(changes, parts, emotion_folder, tmp_path):
    folder = copy(emotion_folder, tmp_path / "mixed", **changes)
    sentence = complaint(folder)
    assert sentence.startswith(str(folder / "model.safetensors"))
    assert all(part in sentence for part in parts), sentence


@pytest.mark.parametrize(("changes", "part"), [
    ({"hidden_size": 10**9}, "hidden_size is 1000000000: expected a whole number from 1 to"),
    ({"num_hidden_layers": -2}, "num_hidden_layers is -2"),
    ({"num_attention_heads": 5}, "hidden_size 32 cannot be shared by num_attention_heads 5"),
    ({"vocab_size": "many"}, "vocab_size is 'many'"),
    ({"model_type": "gpt2"}, "model_type is 'gpt2': expected a BERT"),
    ({"hidden_act": "silu"}, "hidden_act is 'silu': expected one of gelu, gelu_new, relu"),
    ({"is_decoder": True}, "is_decoder is True"),
    ({"nonsense": 1}, "unknown setting nonsense"),
])
def test_an_absurd_config_is_named(changes, part, emotion_folder, tmp_path):
    folder = copy(emotion_folder, tmp_path / "absurd", **changes)
    sentence = complaint(folder)
    assert sentence.startswith(f"{folder / 'config.json'}: ") and part in sentence


def test_a_tokenizer_larger_than_the_network_is_named(emotion_folder, texts, tmp_path):
    folder = copy(emotion_folder, tmp_path / "mixed")
    vocab_size = BertConfig.read(folder / "config.json").vocab_size
    larger = WordPieceTokenizer.train([*texts, "more words than before"], 5_000)
    assert len(larger) > vocab_size
    larger.save(folder)
    assert complaint(folder).startswith(
        f"{folder / 'tokenizer.json'} has {len(larger)} tokens but config.json says {vocab_size}: ")


@pytest.mark.parametrize(("spoil", "what"), [
    (lambda tensor: tensor * float("nan"), "NaN or infinity"),
    (lambda tensor: tensor.int(), "torch.int32")])
def test_weights_that_are_no_numbers_are_named(spoil, what, emotion_folder, tmp_path):
    folder = copy(emotion_folder, tmp_path / "spoilt")
    weights = load_file(folder / "model.safetensors")
    weights["bert.pooler.dense.bias"] = spoil(weights["bert.pooler.dense.bias"])
    save_file(weights, folder / "model.safetensors")
    assert f"model.safetensors: bert.pooler.dense.bias holds {what}" in complaint(folder)


def test_a_classifier_without_its_pooler_is_refused(emotion_folder, tmp_path):
    """As in a token classifier, which would otherwise answer from zeros."""
    folder = copy(emotion_folder, tmp_path / "tokens")
    weights = load_file(folder / "model.safetensors")
    save_file({name: value for name, value in weights.items() if "pooler" not in name},
              folder / "model.safetensors")
    assert "has no bert.pooler.dense.weight" in complaint(folder)
