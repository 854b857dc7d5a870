"""What most people would build instead: `gr.Interface`, a pipeline, pyplot figures in `gr.Plot`.

    python tests/plain_app.py CHECKPOINT

The peer of app.py in bert bench: same weights, same two pictures.
"""

import sys

import gradio as gr
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

folder = sys.argv[1]
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
model = transformers.AutoModelForSequenceClassification.from_pretrained(
    folder, attn_implementation="eager")
classify = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer,
                                 top_k=None, device="cpu", truncation=True,
                                 max_length=model.config.max_position_embeddings)


def draw_bars(answers: list[dict]) -> plt.Figure:
    figure, axes = plt.subplots(figsize=(6, 4))
    axes.barh([answer["label"] for answer in answers], [answer["score"] for answer in answers])
    axes.invert_yaxis()
    figure.tight_layout()
    return figure


def draw_heatmap(tokens: list[str], weights: torch.Tensor) -> plt.Figure:
    figure, axes = plt.subplots(figsize=(7, 6))
    figure.colorbar(axes.imshow(weights, vmin=0, vmax=1), ax=axes)
    axes.set_xticks(range(len(tokens)), tokens, rotation=90)
    axes.set_yticks(range(len(tokens)), tokens)
    figure.tight_layout()
    return figure


def look(text: str, layer: int, head: int) -> tuple[plt.Figure, plt.Figure]:
    plt.close("all")
    inputs = tokenizer(text, return_tensors="pt", truncation=True,
                       max_length=model.config.max_position_embeddings)
    with torch.no_grad():
        attentions = model(**inputs, output_attentions=True).attentions
    tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    return (draw_bars(classify([text])[0]),
            draw_heatmap(tokens, attentions[int(layer) - 1][0, int(head) - 1]))


demo = gr.Interface(
    look, api_name="look", flagging_mode="never", analytics_enabled=False,
    inputs=[gr.Textbox(label="Your text"),
            gr.Slider(1, model.config.num_hidden_layers, value=1, step=1, label="Layer"),
            gr.Slider(1, model.config.num_attention_heads, value=1, step=1, label="Head")],
    outputs=[gr.Plot(label="Feeling"), gr.Plot(label="Attention")])
demo.launch(ssr_mode=False)
