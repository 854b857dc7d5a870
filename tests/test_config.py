import json
from dataclasses import dataclass, fields, replace

import pytest

from bert.arguments import Parser, add_options, described_call, option, read_options
from bert.config import HUGGING_FACE_FIXED, HUGGING_FACE_ONLY, BertConfig
from bert.emotions import EMOTIONS, KEYS, display_name


def test_the_ten_classes_keep_their_keys_order_and_names():
    assert [(emotion.key, emotion.korean, emotion.english) for emotion in EMOTIONS] == [
        ("achievement", "성취", "Achievement"), ("recognition", "인정", "Recognition"),
        ("security", "안정감", "Security"), ("autonomy", "자율성", "Autonomy"),
        ("connection", "유대감", "Connection"), ("joy", "즐거움", "Joy"),
        ("curiosity", "호기심", "Curiosity"), ("sadness", "슬픔", "Sadness"),
        ("anger", "분노", "Anger"), ("anxiety", "불안", "Anxiety")]
    assert len({emotion.colour for emotion in EMOTIONS}) == 10
    assert display_name("joy") == "즐거움 Joy" and display_name("LABEL_1") == "LABEL_1"


# ---------------------------------------------------------------------------------- JSON


def test_config_json_uses_the_names_of_hugging_face():
    values = BertConfig(id2label=KEYS, confidence_threshold=0.4).to_dict()
    assert values["model_type"] == "bert" and values["dtype"] == "float32"
    assert values["id2label"]["9"] == "anxiety" and values["label2id"]["anxiety"] == 9
    assert values["confidence_threshold"] == 0.4
    assert not {"norm", "positions", "pooling"} & set(values)


@pytest.mark.parametrize("change", [
    {}, {"norm": "pre"}, {"positions": "sinusoidal"}, {"pooling": "mean"}, {"id2label": KEYS},
    {"hidden_act": "relu", "classifier_dropout": 0.0, "layer_norm_eps": 1e-5}])
def test_what_is_written_is_read_back(change):
    config = BertConfig(**change)
    assert BertConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize("change", [
    {"norm": "pre"}, {"positions": "sinusoidal"}, {"pooling": "mean"}])
def test_what_hugging_face_cannot_express_has_its_own_model_type(change):
    assert BertConfig(**change).to_dict()["model_type"] == "scratch-bert"


def test_an_unknown_key_is_an_error():
    with pytest.raises(ValueError, match="unknown setting hiden_size: "):
        BertConfig.from_dict({"model_type": "bert", "hiden_size": 32})


def test_keys_that_only_hugging_face_uses_are_passed_over():
    ours = {item.name for item in fields(BertConfig)}
    assert not HUGGING_FACE_ONLY & ours
    assert not HUGGING_FACE_ONLY & set(HUGGING_FACE_FIXED)
    values = {key: "anything" for key in HUGGING_FACE_ONLY}
    assert BertConfig.from_dict({"model_type": "bert", **values}) == BertConfig()


def test_every_key_that_transformers_writes_is_known():
    from transformers import BertConfig as TheirConfig

    written = TheirConfig(vocab_size=99, num_labels=3).to_dict()
    known = {item.name for item in fields(BertConfig)} | HUGGING_FACE_ONLY | {"model_type"}
    assert set(written) <= known | set(HUGGING_FACE_FIXED)


@pytest.mark.parametrize(("key", "value"), [
    ("position_embedding_type", "relative_key"), ("is_decoder", True),
    ("add_cross_attention", True), ("tie_word_embeddings", False), ("pruned_heads", {"0": [1]})])
def test_a_setting_that_would_change_the_network_is_refused(key, value):
    with pytest.raises(ValueError, match=f"{key} is .*: only .* is BERT as built here"):
        BertConfig.from_dict({"model_type": "bert", key: value})
    assert BertConfig.from_dict({key: HUGGING_FACE_FIXED[key]}) == BertConfig()


def test_another_kind_of_model_is_refused():
    with pytest.raises(ValueError, match="model_type is 'roberta': expected a BERT"):
        BertConfig.from_dict({"model_type": "roberta"})


@pytest.mark.parametrize("labels", [
    ["a", "b"], {"0": "a", "2": "b"}, {"a": "0"}, "ab", {"1": "a"}])
def test_classes_that_are_not_numbered_from_zero_are_refused(labels):
    with pytest.raises(ValueError, match="id2label is "):
        BertConfig.from_dict({"id2label": labels})


def test_a_class_named_twice_is_refused():
    with pytest.raises(ValueError, match="names a class twice: joy, joy"):
        BertConfig.from_dict({"id2label": {"0": "joy", "1": "joy"}})


@pytest.mark.parametrize(("content", "complaint"), [
    (b"{", "is not valid JSON"), (b"\xff\xfe{}", "is not valid JSON"),
    (b"[" * 100_000, "is not valid JSON"), (b'{"vocab_size": ' + b"9" * 5_000 + b"}",
                                            "is not valid JSON"),
    (b"[]", "holds a list"), (b'{"hidden_size": 7.5}', "hidden_size is 7.5"),
    (b'{"colour": 1}', "unknown setting colour")])
def test_a_broken_config_file_is_named(tmp_path, content, complaint):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        BertConfig.read(path)
    assert str(caught.value).startswith(str(path)) and complaint in str(caught.value)


# ---------------------------------------------------------------------------------- values


@pytest.mark.parametrize(("name", "value"), [
    ("vocab_size", 0), ("vocab_size", 10**12), ("hidden_size", "192"), ("hidden_size", True),
    ("num_hidden_layers", -1), ("num_hidden_layers", 10**6), ("num_attention_heads", None),
    ("intermediate_size", 3.0), ("max_position_embeddings", 10**9), ("type_vocab_size", 0),
    ("hidden_act", "swish"), ("hidden_act", ["gelu"]), ("norm", "both"), ("positions", "rotary"),
    ("pooling", "max"), ("hidden_dropout_prob", 1.5), ("hidden_dropout_prob", None),
    ("hidden_dropout_prob", True), ("attention_probs_dropout_prob", "0.1"),
    ("classifier_dropout", -0.1), ("confidence_threshold", None),
    ("confidence_threshold", float("nan")), ("layer_norm_eps", 0), ("layer_norm_eps", float("inf")),
    ("initializer_range", -0.02), ("pad_token_id", -1), ("pad_token_id", 16_000),
    ("pad_token_id", None)])
def test_an_absurd_value_is_named_with_what_was_expected(name, value):
    with pytest.raises(ValueError, match=f"{name} is .*: expected"):
        BertConfig(**{name: value})


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="hidden_size 100 cannot be shared by num_attention_heads"):
        BertConfig(hidden_size=100, num_attention_heads=12)
    assert BertConfig(hidden_size=96, num_attention_heads=12).head_size == 8


# ---------------------------------------------------------------------------------- flags


@dataclass(frozen=True)
class ExampleSettings:
    steps: int = option(5, "how many")
    rate: float = option(0.5, "how fast, in %")
    name: str = option("x", "what it is called")
    loud: bool = option(True, "whether it speaks")


def test_every_field_becomes_a_flag_with_its_default_and_help():
    parser = Parser(prog="example")
    add_options(parser, ExampleSettings)
    assert read_options(parser.parse_args([]), ExampleSettings) == ExampleSettings()
    changed = parser.parse_args(["--steps", "7", "--rate", "1", "--name", "y", "--no-loud"])
    assert read_options(changed, ExampleSettings) == ExampleSettings(7, 1.0, "y", False)
    assert "how fast, in % (default: 0.5)" in parser.format_help()


def test_the_network_can_be_described_by_flags():
    parser = Parser(prog="example")
    add_options(parser, BertConfig)
    arguments = parser.parse_args(["--hidden-size", "48", "--norm", "pre"])
    assert read_options(arguments, BertConfig) == replace(BertConfig(), hidden_size=48, norm="pre")


def test_a_kept_command_says_nothing_of_the_machine_it_ran_on(monkeypatch):
    monkeypatch.setattr("sys.argv", ["x.py", "--data", "/some/where/test.tsv", "--out=/else/where",
                                     "runs/a", "--name=b", "two words"])
    assert described_call("evaluate") == (
        "python -m bert evaluate --data test.tsv --out=where runs/a --name=b 'two words'")


@pytest.mark.parametrize("arguments", [["--steps", "many"], ["--what"], ["a\nb"], ["--steps"]])
def test_a_wrong_flag_is_one_line_and_exit_code_two(arguments, capsys):
    parser = Parser(prog="example")
    add_options(parser, ExampleSettings)
    with pytest.raises(SystemExit) as caught:
        parser.parse_args(arguments)
    out, err = capsys.readouterr()
    assert (caught.value.code, out) == (2, "")
    assert err.startswith("example: ") and err.count("\n") == 1 and err.endswith("\n")
