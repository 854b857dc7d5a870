"""What notebooks get: a prediction that shows itself, a run by the names of TransformerLens, and
the notebook that ships."""

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.image
import nbclient
import nbformat
import numpy as np
import pytest

from bert.classifier import Prediction
from bert.drawing.texts import colours
from bert.hook_names import hook_names

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "assets" / "notebooks" / "microscope.ipynb"
LINE = "They blamed me for their own mistake"  # what the fixture `theirs` has read


class Page(HTMLParser):
    """The texts and the tags of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes) -> None:
        self.tags.append((tag, dict(attributes)))
        self.open.append(tag)

    def handle_startendtag(self, tag, attributes) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        self.texts.append(data)


# ---------------------------------------------------------------------------------- a prediction


def test_a_prediction_shows_its_text_its_bars_and_a_heatmap(classifier):
    prediction = classifier(LINE)
    page = Page(prediction._repr_html_())
    assert page.open == [] and LINE in page.texts
    for key, share in prediction.ranked():
        assert f"{share:.1%}" in page.texts and any(key.title() in text for text in page.texts)
    labels = [text for text in page.texts if text in prediction.tokens]
    assert len(labels) >= 2 * len(prediction.tokens)  # above the heatmap and beside it


def test_the_heatmap_is_the_mean_of_the_last_layers_heads(classifier):
    prediction = classifier(LINE)
    picture = next(attributes["href"] for tag, attributes in
                   Page(prediction._repr_html_()).tags if tag == "image")
    content = base64.b64decode(picture.removeprefix("data:image/png;base64,"))
    pixels = matplotlib.image.imread(io.BytesIO(content), format="png")[..., :3]     # (T, T, 3)
    weights = prediction.attentions[-1].mean(axis=0)
    table = np.array([list(bytes.fromhex(colour[1:])) for colour in colours()["viridis"]]) / 255
    expected = table[np.rint(255 * weights / weights.max()).astype(int)]
    assert np.abs(pixels - expected).max() < 1e-3


def test_text_is_shown_and_never_becomes_part_of_the_page(classifier):
    text = '<script>alert("1")</script> <img src=x onerror=y> & $x_1$'
    page = Page(classifier(text)._repr_html_())
    assert text in page.texts
    assert {tag for tag, _ in page.tags} <= {"div", "p", "b", "span", "table", "tr", "td", "svg",
                                             "text", "image"}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_it_needs_nothing_from_elsewhere_and_stays_small(classifier):
    html = classifier("the money runs out " * 200)._repr_html_()
    assert set(re.findall(r"https?://[^\"']+", html)) <= {"http://www.w3.org/2000/svg"}
    assert "only the beginning was read" in html and len(html) < 60_000


def test_without_attention_there_are_only_bars(classifier):
    html = classifier.predict_many([LINE])[0]._repr_html_()
    assert "<svg" not in html and html.count("<tr") == 10


def test_without_a_classifier_there_is_only_the_heatmap(pretrained_folder, classifier):
    encoding, attentions = classifier.attentions(LINE)
    html = Prediction(encoding, (), np.zeros(0), True, attentions)._repr_html_()
    assert "<svg" in html and "<tr" not in html


# ---------------------------------------------------------------------------------- TransformerLens


def test_the_names_of_transformer_lens_are_those_of_its_hooked_encoder(classifier):
    """As transformer_lens 2.18 lists them for a BERT of two layers."""
    found = set(classifier.run_with_cache(LINE).keys())
    of_a_block = {
        "hook_resid_pre", "attn.hook_q", "attn.hook_k", "attn.hook_v", "attn.hook_attn_scores",
        "attn.hook_pattern", "attn.hook_z", "hook_attn_out", "hook_resid_mid", "mlp.hook_post",
        "hook_mlp_out", "hook_resid_post", "hook_normalized_resid_post"}
    names = {"hook_embed", "hook_pos_embed", "hook_token_type_embed"}
    assert found == {*names, *(f"embed.{name}" for name in names), "hook_full_embed",
                     "pooler.hook_pooler_out",
                     *(f"blocks.{layer}.{name}" for layer in (0, 1) for name in of_a_block)}


def test_the_tensors_are_those_of_transformers(classifier, theirs):
    cache = classifier.run_with_cache(LINE)
    for layer, pattern in enumerate(theirs.attentions):
        assert cache["pattern", layer] == pytest.approx(pattern.numpy(), abs=1e-5)
    assert cache["hook_full_embed"] == pytest.approx(theirs.hidden_states[0].numpy(), abs=1e-5)
    for layer, hidden in enumerate(theirs.hidden_states[1:]):
        after = cache[f"blocks.{layer}.hook_normalized_resid_post"]
        assert after == pytest.approx(hidden.numpy(), abs=1e-4)


def test_the_tensors_fit_each_other_in_the_shapes_that_are_expected(classifier):
    cache = classifier.run_with_cache(LINE)
    q, k, v, z = (cache[name, -1] for name in ("q", "k", "v", "z"))                  # (1, T, H, D)
    tokens, config = len(cache.encoding.ids), classifier.config
    assert q.shape == (1, tokens, config.num_attention_heads, 16)
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    assert cache["blocks.1.attn.hook_attn_scores"] == pytest.approx(scores, abs=1e-4)
    mixed = np.einsum("bhqk,bkhd->bqhd", cache["pattern", 1], v)
    assert z == pytest.approx(mixed, abs=1e-4)
    before, out = cache["resid_pre", 1], cache["attn_out", 1]
    assert cache["resid_mid", 1] == pytest.approx(before + out, abs=1e-5)
    assert cache["post", 0].shape == (1, tokens, config.intermediate_size)
    assert cache["embed.hook_embed"] is not None and cache["logits"].shape == (1, 10)


def test_a_pre_norm_model_hands_on_the_sum_itself(deeper):
    cache = deeper.run_with_cache(LINE)
    assert "blocks.0.hook_normalized_resid_post" not in cache.keys()
    assert (cache["resid_pre", 3] == cache["resid_post", 2]).all()


def test_a_name_that_does_not_exist_is_a_key_error(classifier):
    cache = classifier.run_with_cache(LINE)
    for name in ("blocks.2.attn.hook_q", "hook_nothing", ("pattern", 2), ("nothing", 0)):
        with pytest.raises(KeyError, match="no "):
            cache[name]


def test_names_without_steps_are_not_promised():
    assert hook_names(["token vectors"]) == {"hook_embed": "token vectors",
                                             "embed.hook_embed": "token vectors"}


# ---------------------------------------------------------------------------------- the notebook


def pictures(notebook: nbformat.NotebookNode) -> list[str]:
    """The kinds of all outputs, in order."""
    return [kind for cell in notebook.cells for output in cell.get("outputs", ())
            for kind in output.get("data", {}) if kind != "text/plain"]


def test_the_notebook_ships_with_its_pictures():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert NOTEBOOK.stat().st_size < 600_000
    assert pictures(notebook) == ["text/html", "image/png", "image/png"]
    assert not [cell.source for cell in notebook.cells
                if cell.cell_type == "code" and cell.execution_count is None]


# The kernel's own libraries warn when they start and stop.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning",
                            "ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_notebook_runs_from_its_own_folder_and_says_the_same():
    shipped = nbformat.read(NOTEBOOK, as_version=4)
    again = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(again, timeout=600, kernel_name="python3", resources={
        "metadata": {"path": str(NOTEBOOK.parent)}}).execute()
    assert pictures(again) == pictures(shipped)
    assert spoken(again) == spoken(shipped)


def spoken(notebook: nbformat.NotebookNode) -> list[str]:
    """What each cell prints, without the digits that another processor may round otherwise."""
    return [re.sub(r"\.\d+", "", "".join(output["text"] for output in cell.get("outputs", ())
                                         if output.output_type == "stream"))
            for cell in notebook.cells]
