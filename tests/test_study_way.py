"""The whole way and one block: every number against formulas written anew in numpy."""

import csv
import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from playwright.sync_api import expect
from safetensors.numpy import load_file

from bert.checkpoint import save_checkpoint, untrained
from bert.config import BertConfig
from bert.exports import make_study
from bert.lab import Lab, Options, unpacked
from bert.model import BertForSequenceClassification
from bert.passage import BLOCK, WAY
from bert.predict import EmotionClassifier
from bert.texts import say

expect.set_options(timeout=60_000)  # a limit for a hang, never reached otherwise
TEXT = "드디어 마라톤을 완주했다"
POST = ("attention", "dropout", "residual", "norm", "feed", "dropout", "residual", "norm")
PRE = ("norm", "attention", "dropout", "residual", "norm", "feed", "dropout", "residual")
erf = np.vectorize(math.erf)


class ByHand:
    """BERT in numpy, float64, from the file of weights: nothing of ours but their names."""

    def __init__(self, folder: Path, config: BertConfig, ids: list[int]) -> None:
        self.weights = {name: value.astype(np.float64)
                        for name, value in load_file(folder / "model.safetensors").items()}
        self.config = config
        place = "bert.embeddings."
        self.token = self.weights[f"{place}word_embeddings.weight"][ids]              # (T, E)
        self.segment = self.weights[f"{place}token_type_embeddings.weight"][[0] * len(ids)]
        self.position = self.weights[f"{place}position_embeddings.weight"][:len(ids)]
        self.sum = self.token + self.segment + self.position
        self.states = [self.norm(self.sum, f"{place}LayerNorm")]
        self.blocks, self.heads = [], []
        for number in range(config.num_hidden_layers):
            self.blocks.append(list(self.block(self.states[-1], f"bert.encoder.layer.{number}.")))
            self.states.append(self.blocks[-1][-1][1])
        self.last = self.states[-1]
        if config.norm == "pre":
            self.last = self.norm(self.last, "bert.encoder.final_norm")
        self.read = self.last.mean(axis=0) if config.pooling == "mean" else self.last[0]
        self.pooled = np.tanh(self.linear(self.read, "bert.pooler.dense"))
        self.logits = self.linear(self.pooled, "classifier")
        self.probabilities = np.exp(self.logits) / np.exp(self.logits).sum()

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred ** 2).mean(axis=-1, keepdims=True) + self.config.layer_norm_eps)
        return (centred / spread * self.weights[f"{name}.weight"]
                + self.weights[f"{name}.bias"])

    def attention(self, x: np.ndarray, name: str) -> np.ndarray:
        query, key, value = (
            self.linear(x, f"{name}attention.self.{part}").reshape(
                len(x), self.config.num_attention_heads, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value"))                                    # (H, T, D)
        scores = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1]))
        weights = scores / scores.sum(axis=-1, keepdims=True)                         # (H, T, T)
        context = weights @ value                                                     # (H, T, D)
        self.heads.append((weights, context))
        return self.linear(context.transpose(1, 0, 2).reshape(len(x), -1),
                           f"{name}attention.output.dense")

    def feed(self, x: np.ndarray, name: str) -> np.ndarray:
        inner = self.linear(x, f"{name}intermediate.dense")
        return self.linear(inner * (1 + erf(inner / math.sqrt(2))) / 2, f"{name}output.dense")

    def block(self, x: np.ndarray, name: str) -> Iterator[tuple[str, np.ndarray]]:
        """The eight steps, in the order of the norm."""
        is_pre = self.config.norm == "pre"
        for kind, compute, norm in (
                ("attention", self.attention, f"{name}attention.output.LayerNorm"),
                ("feed", self.feed, f"{name}output.LayerNorm")):
            if is_pre:
                yield "norm", self.norm(x, norm)
            made = compute(self.norm(x, norm) if is_pre else x, name)
            yield kind, made
            yield "dropout", made
            x = x + made
            yield "residual", x
            if not is_pre:
                x = self.norm(x, norm)
                yield "norm", x


def lab_of(config: BertConfig, tokenizer, folder: Path) -> Lab:
    """A checkpoint in which no weight has a value that could hide a mistake."""
    model = untrained(config, BertForSequenceClassification)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    save_checkpoint(folder, model, tokenizer)
    return Lab(EmotionClassifier.load(folder))


@pytest.fixture(scope="module", params=["post", "pre", "mean"])
def lab(request, tiny_config, tokenizer, tmp_path_factory) -> Lab:
    changes = {"pooling": "mean"} if request.param == "mean" else {"norm": request.param}
    return lab_of(replace(tiny_config, **changes), tokenizer,
                  tmp_path_factory.mktemp("passage") / request.param)


@pytest.fixture
def by_hand(lab) -> ByHand:
    classifier = lab.classifier
    return ByHand(classifier.checkpoint.folder, classifier.config, classifier.encode(TEXT).ids)


@pytest.fixture
def trained(classifier) -> Lab:
    return Lab(classifier)


def close(expected):
    return pytest.approx(np.asarray(expected), rel=2e-4, abs=2e-5)


# ---------------------------------------------------------------------------------- the whole way


@pytest.mark.parametrize("token", [0, 2])
def test_every_station_has_the_numbers_of_the_formula(lab, by_hand, token):
    data = WAY.answer(lab, TEXT, Options({"token": str(token)}))
    expected = {"token": by_hand.token, "segment": by_hand.segment, "position": by_hand.position,
                "sum": by_hand.sum, "norm": by_hand.states[0], "final": by_hand.last}
    expected = {name: tensor[token] for name, tensor in expected.items()}
    expected |= {"read": by_hand.read, "pooled": by_hand.pooled}
    others = [stop for stop in data["stations"] if stop["name"] != "layer"]
    has_final = lab.classifier.config.norm == "pre"
    assert [stop["name"] for stop in others] == [name for name in expected
                                                 if name != "final" or has_final]
    for stop in data["stations"]:
        vector = (by_hand.states[stop["layer"]][token] if "layer" in stop
                  else expected[stop["name"]])
        assert np.array(stop["values"]) == close(vector), stop["name"]
        assert (stop["mean"], stop["spread"], stop["norm"]) == (
            close(vector.mean()), close(vector.std()), close(np.sqrt((vector ** 2).sum())))
        assert max(map(abs, stop["values"])) <= stop["limit"] * (1 + 1e-6)
        size = len(data["pieces"])
        assert stop["shape"] == ("(1, 32)" if stop["name"] in ("read", "pooled")
                                 else f"(1, {size}, 32)")
    assert np.array(data["logits"]) == close(by_hand.logits)
    assert np.array(data["probabilities"]) == close(by_hand.probabilities)


def test_how_far_a_layer_moved_a_token_is_the_distance_of_its_two_vectors(lab, by_hand):
    data = WAY.answer(lab, TEXT, Options({"token": 3}))
    layers = [stop for stop in data["stations"] if stop["name"] == "layer"]
    assert [stop["layer"] for stop in layers] == [1, 2]
    for stop in layers:
        before, after = by_hand.states[stop["layer"] - 1][3], by_hand.states[stop["layer"]][3]
        assert stop["moved"] == close(np.sqrt(((after - before) ** 2).sum()))


def test_the_layers_are_those_of_transformers(trained, emotion_folder):
    theirs = transformers.BertForSequenceClassification.from_pretrained(emotion_folder).eval()
    ids = torch.tensor([trained.classifier.encode(TEXT).ids])
    with torch.inference_mode():
        output = theirs(ids, output_hidden_states=True)
    for token in (0, 4):
        data = WAY.answer(trained, TEXT, Options({"token": token}))
        ours = [stop["values"] for stop in data["stations"] if stop["name"] in ("norm", "layer")]
        for state, values in zip(output.hidden_states, ours, strict=True):
            assert np.abs(state[0, token].numpy() - np.array(values)).max() < 1e-5
    assert np.array(data["probabilities"]) == pytest.approx(
        output.logits[0].softmax(dim=-1).numpy(), abs=1e-5)


def test_the_way_ends_with_the_probabilities_of_the_answer(trained):
    data = WAY.answer(trained, TEXT, Options())
    prediction = trained.classifier(TEXT)
    assert np.array(data["probabilities"]) == pytest.approx(prediction.probabilities, abs=1e-6)
    assert [item["key"] for item in data["classes"]] == list(prediction.keys)
    assert (data["ids"], data["pieces"]) == (prediction.encoding.ids, prediction.tokens)


def test_without_a_classifier_the_way_ends_at_the_pooler_or_before_it(pretrained_folder):
    classifier = EmotionClassifier.load(pretrained_folder)
    data = WAY.answer(Lab(classifier), TEXT, Options())
    assert data["classes"] == [] and data["stations"][-1]["name"] == "pooled"
    bare = EmotionClassifier(replace(classifier.checkpoint, missing=("pooler",)))
    data = WAY.answer(Lab(bare), TEXT, Options())
    assert data["stations"][-1]["name"] == "layer"
    assert make_study(WAY, data, "png", "ko").content[:4] == b"\x89PNG"
    assert "logit" not in make_study(WAY, data, "csv", "en").content.decode("utf-8-sig")


# ---------------------------------------------------------------------------------- one block


@pytest.mark.parametrize("layer", [1, 2])
def test_every_step_of_a_block_has_the_numbers_of_the_formula(lab, by_hand, layer):
    data = BLOCK.answer(lab, TEXT, Options({"layer": layer, "head": 2, "token": 1}))
    entering, steps = by_hand.states[layer - 1], by_hand.blocks[layer - 1]
    assert (data["entering"]["mean"], data["entering"]["spread"]) == (
        close(entering.mean()), close(entering.std()))
    assert tuple(step["kind"] for step in data["steps"]) == tuple(kind for kind, _ in steps) == (
        PRE if lab.classifier.config.norm == "pre" else POST)
    for step, (kind, tensor) in zip(data["steps"], steps, strict=True):
        assert [step[name] for name in ("mean", "spread", "low", "high")] == close(
            [tensor.mean(), tensor.std(), tensor.min(), tensor.max()]), kind
        assert (step["from"], step["to"]) == (step["low"], step["high"])
        counts, _ = np.histogram(tensor, bins=len(step["counts"]))
        assert np.abs(np.array(step["counts"]) - counts).sum() <= 4  # one on an edge may differ
        if kind == "dropout":
            assert "picture" not in step
            continue
        assert np.array(step["row"]) == close(tensor[1])
        assert np.abs(unpacked(step["picture"]) - tensor).max() <= (
            step["picture"]["limit"] / 253)


def test_the_chosen_head_shows_its_weights_and_its_context(lab, by_hand):
    data = BLOCK.answer(lab, TEXT, Options({"layer": 1, "head": 2}))
    for name, expected in zip(("weights", "context"), by_hand.heads[0], strict=True):
        found = unpacked(data[name])
        assert np.abs(found - expected[1]).max() <= data[name]["limit"] / 253, name


def test_the_boxes_say_the_real_shapes(trained):
    data = BLOCK.answer(trained, TEXT, Options())
    size = len(data["pieces"])
    whole = f"(1, {size}, 32)"
    shapes = {step["kind"]: step["shape"] for step in data["steps"]}
    assert shapes == {
        "attention": f"{whole} → (1, 2, {size}, 16) × 3 → (1, 2, {size}, {size}) → {whole}",
        "feed": f"{whole} → (1, {size}, 64) → {whole}",
        "dropout": whole, "residual": whole, "norm": whole}
    assert data["dropout"] == trained.classifier.config.hidden_dropout_prob


@pytest.mark.parametrize("given", [
    {}, {"layer": 99, "head": 0, "token": 10_000, "step": 9}, {"layer": "mean", "head": [1]},
    {"token": "-1", "step": "one"}, {"token": True, "step": None}])
def test_impossible_choices_become_the_defaults(trained, given):
    data = BLOCK.answer(trained, TEXT, Options(given))
    assert [data[name] for name in ("layer", "head", "token", "step")] == [2, 1, 0, 1]
    assert WAY.answer(trained, TEXT, Options(given))["token"] == 0


# ---------------------------------------------------------------------------------- files


@pytest.mark.parametrize(("language", "step"), [("en", 2), ("ko", 1)])
def test_a_block_can_be_taken_away_as_a_picture(lab, language, step):
    """With and without attention among them: it has two pictures more."""
    data = BLOCK.answer(lab, "$x^2$ 🙂 그리고 끝", Options({"step": step, "token": 2}))
    assert data["step"] == step
    assert make_study(BLOCK, data, "png", language).content[:4] == b"\x89PNG"


def test_the_file_of_a_block_holds_every_number_the_page_only_paints(lab, by_hand):
    data = BLOCK.answer(lab, TEXT, Options({"layer": 2, "head": 2}), in_full=True)
    data = json.loads(make_study(BLOCK, data, "json", "en").content)
    for step, (kind, tensor) in zip(data["steps"], by_hand.blocks[1], strict=True):
        assert kind == "dropout" or np.array(step["picture"]) == close(tensor)
    for name, expected in zip(("weights", "context"), by_hand.heads[1], strict=True):
        assert np.array(data[name]) == close(expected[1])


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_way_can_be_taken_away(lab, by_hand, language):
    data = WAY.answer(lab, TEXT, Options({"token": 1}))
    assert make_study(WAY, data, "png", language).content[:4] == b"\x89PNG"
    file = make_study(WAY, data, "csv", language).content.decode("utf-8-sig")
    rows = {row[0]: row for row in csv.reader(io.StringIO(file)) if row}
    assert np.array(rows["layer 2"][5:], dtype=float) == close(by_hand.states[2][1])
    assert float(rows["joy"][1]) == close(by_hand.logits[data["classes"].index(
        next(item for item in data["classes"] if item["key"] == "joy"))])


def test_the_sheet_of_a_block_has_a_row_for_each_step(lab, by_hand):
    data = BLOCK.answer(lab, TEXT, Options({"layer": 2, "token": 1}))
    file = make_study(BLOCK, data, "csv", "en").content.decode("utf-8-sig")
    heading, *rows = csv.reader(io.StringIO(file))
    assert heading[:3] == ["step", "name", "shape"] and len(rows) == 8
    for row, (kind, tensor) in zip(rows, by_hand.blocks[1], strict=True):
        assert row[1] == kind
        assert np.array(row[7:], dtype=float) == close(tensor[1])


# ---------------------------------------------------------------------------------- the page


def numbers_in(text: str) -> list[float]:
    return [float(number.replace("−", "-")) for number in re.findall(r"−?\d+\.\d+", text)]


def test_the_page_shows_the_way_of_the_chosen_token(visit, trained):
    with visit(f"view=way&text={TEXT}&token=2") as page:
        data = WAY.answer(trained, TEXT, Options({"token": 2}))
        stops = {stop["name"]: stop for stop in data["stations"]}
        for name in ("token", "sum", "norm", "read", "pooled"):
            card = page.locator(f'[data-station="{name}"]')
            assert numbers_in(card.locator(".numbers").inner_text()) == pytest.approx(
                stops[name]["values"][:6], abs=6e-4)
            expect(card.locator(".shape")).to_have_text(stops[name]["shape"])
        shares = {row.get_attribute("data-class"): row.locator("td").last.inner_text()
                  for row in page.locator('[data-station="answer"] tbody tr').all()}
        assert shares == {bar.get_attribute("data-class"): bar.locator(".figure").inner_text()
                          for bar in page.locator("button.bar").all()}
        page.locator('[data-study="way"] .token-row button').nth(1).press("Enter")
        expect(page.locator('[data-station="ids"] .stats')).to_contain_text(
            f"“{data['pieces'][1]}” is number {data['ids'][1]} ")
        assert page.evaluate("document.activeElement.dataset.place") == "1"
        assert "token=1" in page.url


def test_opening_a_box_asks_nobody_and_shows_its_tensor(visit, trained):
    with visit(f"view=block&text={TEXT}&layer=1&head=2&token=3") as page:
        data = BLOCK.answer(trained, TEXT, Options({"layer": 1, "head": 2, "token": 3}))
        expect(page.locator(".opened h3")).to_have_text(f"1 {say('en', 'block_attention')}")
        expect(page.locator(".opened figure")).to_have_count(3)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for number, step in enumerate(data["steps"], 1):
            box = page.locator(f'button[data-step="{number}"]')
            box.press("Enter")
            title = f"{number} {say('en', 'block_' + step['kind'])}"
            expect(page.locator(".opened h3")).to_have_text(title)
            expect(box.locator(".name")).to_have_text(title)
            assert numbers_in(page.locator(".opened > .stats").inner_text()) == pytest.approx(
                [step[name] for name in ("mean", "spread", "low", "high")], abs=6e-4)
            own = step["row"] if "row" in step else data["steps"][number - 2]["row"]
            assert numbers_in(page.locator(".opened .numbers").inner_text()) == pytest.approx(
                own[:6], abs=6e-4)
        assert asked == [] and "step=8" in page.url
        assert [(line.get_attribute("data-from"), line.get_attribute("data-to"))
                for line in page.locator(".bypass").all()] == [("0", "3"), ("4", "7")]
