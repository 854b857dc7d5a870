"""The steps of a run under the names of TransformerLens (its HookedEncoder, for BERT).

    cache = classifier.run_with_cache("정말 고마워")
    cache["blocks.0.attn.hook_pattern"]    # (1, H, T, T), layers counted from 0 as there
    cache["pattern", 0]                    # the same

The names, each of a layer after `blocks.N.`:

    hook_embed  hook_pos_embed  hook_token_type_embed   the three vectors that are added  (1, T, E)
    hook_full_embed                   their sum after LayerNorm                           (1, T, E)
    hook_resid_pre                    what the layer gets                                 (1, T, E)
    attn.hook_q  hook_k  hook_v       queries, keys, values                            (1, T, H, D)
    attn.hook_attn_scores             before softmax, query × key                      (1, H, T, T)
    attn.hook_pattern                 after softmax, query × key                       (1, H, T, T)
    attn.hook_z                       the values as the heads mixed them               (1, T, H, D)
    hook_attn_out  hook_resid_mid     output of the attention; added to its input         (1, T, E)
    mlp.hook_post                     inside the feed-forward network, after GELU         (1, T, F)
    hook_mlp_out  hook_resid_post     output of that network; added to its input          (1, T, E)
    hook_normalized_resid_post        after the last LayerNorm: what the next layer gets  (1, T, E)
    pooler.hook_pooler_out            the pooled vector                                      (1, E)

In a BERT LayerNorm comes after each sum, so that `hook_resid_post` of a layer is not yet
`hook_resid_pre` of the next. All else of a run, such as "logits" or "layer 1 · attention
LayerNorm", has only the name that `cache.steps` shows, which `cache[…]` takes as well.
"""

from collections.abc import Sequence

EMBEDDINGS = {"hook_embed": "token vectors", "hook_pos_embed": "position vectors",
              "hook_token_type_embed": "segment vectors"}
WHOLE = {**EMBEDDINGS, **{f"embed.{name}": step for name, step in EMBEDDINGS.items()},
         "hook_full_embed": "LayerNorm", "pooler.hook_pooler_out": "pooled"}
OF_A_LAYER = {
    "attn.hook_q": "query", "attn.hook_k": "key", "attn.hook_v": "value", "attn.hook_z": "context",
    "attn.hook_attn_scores": "scores", "attn.hook_pattern": "attention",
    "hook_attn_out": "attention output", "hook_resid_mid": "attention residual",
    "mlp.hook_post": "feed-forward activations", "hook_mlp_out": "feed-forward output",
    "hook_resid_post": "feed-forward residual",
}
BY_TOKEN_FIRST = ("attn.hook_q", "attn.hook_k", "attn.hook_v", "attn.hook_z")  # (B, T, H, D) there


def hook_names(steps: Sequence[str]) -> dict[str, str]:
    """Each name of TransformerLens that a run has, with that of its step."""
    known = set(steps)
    found = {name: step for name, step in WHOLE.items() if step in known}
    is_pre_norm, layer, before = "final LayerNorm" in known, 0, "LayerNorm"
    while f"layer {layer + 1} · query" in known:
        block, prefix = f"blocks.{layer}.", f"layer {layer + 1} · "
        found[f"{block}hook_resid_pre"] = before
        found |= {block + name: prefix + step for name, step in OF_A_LAYER.items()}
        before = prefix + "feed-forward residual"
        if not is_pre_norm:
            before = found[f"{block}hook_normalized_resid_post"] = prefix + "feed-forward LayerNorm"
        layer += 1
    return found


def full_name(short: str, layer: int, names: Sequence[str]) -> str:
    """("pattern", 0) -> "blocks.0.attn.hook_pattern"; a layer of −1 is the last one."""
    num_layers = sum(name.endswith(".hook_resid_pre") for name in names)
    block = f"blocks.{layer + num_layers if layer < 0 else layer}."
    for part in ("", "attn.", "mlp."):
        if f"{block}{part}hook_{short}" in names:
            return f"{block}{part}hook_{short}"
    raise KeyError(f"no {short!r} in layer {layer} of {num_layers}")
