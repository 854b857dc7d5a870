"""More labelled lines from the pre-trained model: words masked and filled in again, label kept."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from bert.checkpoint import Checkpoint
from bert.corpus import LabelledLine
from bert.pairs import Masking
from bert.training import batches_by_length


@torch.inference_mode()
def refill(lines: Sequence[LabelledLine], checkpoint: Checkpoint, rate: float = 0.15,
           seed: int = 0, choices: int = 10, batch_tokens: int = 4_096) -> list[LabelledLine]:
    """A copy of each line in which whole words were masked and drawn anew from the model's
    `choices` best guesses; lines that come out unchanged are left out."""
    if not checkpoint.has_mlm:
        raise ValueError(f"{checkpoint.folder} has no masked-language-model head: give a "
                         "checkpoint made by bert.pretrain")
    tokenizer, masking = checkpoint.tokenizer, Masking(checkpoint.tokenizer)
    draw = np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    longest = checkpoint.config.max_position_embeddings - 2
    rows = [ids[:longest] for ids in tokenizer.encode_ids([line.text for line in lines])]
    lengths = np.array([len(row) + 2 for row in rows])
    filled: dict[int, LabelledLine] = {}
    for chosen in batches_by_length(lengths, batch_tokens, draw):
        ids, is_token = tokenizer.frame([rows[i] for i in chosen])
        _, is_masked = masking(ids, is_token, draw, rate, whole_word=True)
        hidden = np.where(is_masked, tokenizer.mask_id, ids)
        places = torch.from_numpy(is_masked)
        logits = checkpoint.model(torch.from_numpy(hidden), None, torch.from_numpy(is_token),
                                  predict_at=places, lean=True).mlm_logits   # (M, V)
        logits[:, list(tokenizer.special_ids)] = float("-inf")
        best = logits.topk(choices)
        picked = torch.multinomial(best.values.softmax(-1), 1, generator=generator)
        new = ids.copy()
        new[is_masked] = best.indices.gather(1, picked)[:, 0].numpy()
        for row, i in enumerate(chosen):
            if (new[row] != ids[row]).any():
                text = tokenizer.decode(new[row][is_token[row]])
                filled[int(i)] = replace(lines[i], text=text, pair="")
    return [filled[i] for i in sorted(filled)]
