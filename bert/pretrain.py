"""Pre-train BERT: guess masked pieces, and whether one sentence follows another.

    python -m bert.pretrain --tokenizer FOLDER --corpus DOCUMENTS.txt --lines LINES.txt \\
        --run-dir runs/pretrain --out checkpoints/pretrained

--corpus files hold one sentence a line and a blank line after each document; --lines files hold
independent lines, which have no next sentence. Interrupted at any moment, the same command goes on
from the last save and ends at the same weights. Under `torchrun --nproc-per-node N` the processes
share each batch (N times --batch-tokens). For orientation: published small runs reach an MLM
accuracy of 0.15–0.5 and an NSP accuracy of 0.77–0.93.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bert.checkpoint import (
    TOKENIZER,
    check_replaceable,
    load_checkpoint,
    save_checkpoint,
    untrained,
)
from bert.config import (
    BertConfig,
    Parser,
    add_options,
    described_call,
    option,
    read_options,
)
from bert.corpus import TokenCorpus
from bert.machine import tune_machine
from bert.metrics import metrics_file
from bert.model import BertForPreTraining, mlm_loss, nsp_loss
from bert.pairs import PretrainBatch, PretrainData
from bert.tokenizer import WordPieceTokenizer
from bert.training import LoopConfig, Processes, Reporter, Sums, fingerprint, fit


@dataclass(frozen=True)
class PretrainConfig(LoopConfig):
    """How pre-training runs; the shape of the network is BertConfig."""

    steps: int = option(20_000, "optimizer steps in all")
    sequence_length: int = option(48, "longest example, in pieces")
    mask_rate: float = option(0.15, "share of pieces to predict")
    whole_word: bool = option(False, "mask all pieces of a word together")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_at_least(1, "steps")
        self.check_at_least(8, "sequence_length")
        self.check("a share between 0 and 1", lambda share: 0 < share < 1, "mask_rate")


def batch_losses(model: BertForPreTraining, batch: PretrainBatch, device: torch.device) -> Sums:
    """Both losses as sums, with what each is a sum over, and both numbers of right guesses."""
    ids, segment_ids, is_masked = (torch.from_numpy(value).to(device) for value in
                                   (batch.ids, batch.segment_ids, batch.is_masked))
    mask = None if batch.is_token.all() else torch.from_numpy(batch.is_token).to(device)
    # Explicit attention is the faster one here: short texts, narrow heads.
    output = model(ids, segment_ids, mask, predict_at=is_masked)
    mlm_targets = torch.from_numpy(batch.mlm_targets[batch.is_masked]).to(device)
    nsp_targets = torch.from_numpy(batch.nsp_targets).to(device)
    places, pairs = len(mlm_targets), int((batch.nsp_targets >= 0).sum())
    return {
        "mlm_loss": (mlm_loss(output.mlm_logits, mlm_targets) * places, places),
        "nsp_loss": (nsp_loss(output.nsp_logits, nsp_targets) * pairs, pairs),
        "mlm_accuracy": ((output.mlm_logits.argmax(-1) == mlm_targets).sum(), places),
        "nsp_accuracy": ((output.nsp_logits.argmax(-1) == nsp_targets).sum(), pairs),
    }


def pretrain(config: BertConfig, settings: PretrainConfig, corpus: TokenCorpus,
             tokenizer: WordPieceTokenizer, run: Path, out: Path, processes: Processes,
             max_steps: int | None = None, start_from: Path | None = None) -> BertForPreTraining:
    """The whole run, from wherever it was left."""
    check_replaceable(out, TOKENIZER)
    model = untrained(config, BertForPreTraining, settings.seed)
    if start_from is not None:
        start = load_checkpoint(start_from)
        if start.tokenizer.digest() != tokenizer.digest():
            raise ValueError(f"{start_from} has another tokenizer than --tokenizer: give its own")
        if not start.has_mlm or _network(start.config) != _network(config):
            raise ValueError(f"{start_from} is not a pre-trained model of the shape of this call: "
                             "give one made by bert.pretrain, and its shape")
        model.load_state_dict(start.model.state_dict())
    model.to(processes.device)
    data = PretrainData(corpus, tokenizer, settings.sequence_length,
                        settings.batch_tokens * processes.world_size, settings.mask_rate,
                        settings.whole_word, settings.seed)

    def losses(batch: PretrainBatch) -> Sums:
        return batch_losses(model, batch.rows(processes.rank, processes.world_size),
                            processes.device)

    read = fingerprint(tokenizer.digest(), corpus.sentences, corpus.documents, config)

    def save(reporter: Reporter) -> None:
        facts = {"command": described_call("bert.pretrain"), "seed": settings.seed, "data": read,
                 "settings": asdict(settings), "pieces_in_corpus": len(corpus.ids),
                 "curves": {"pretrain": reporter.curve()}}
        save_checkpoint(out, model, tokenizer, half=True,
                        files=metrics_file(facts))

    fit(model, losses, data.batches, settings, settings.steps, run, processes, data=read,
        max_steps=max_steps, save=save)
    return model


def _network(config: BertConfig) -> dict[str, Any]:
    """What makes two networks the same: everything but how they are trained and answer."""
    return {name: value for name, value in asdict(config).items()
            if "dropout" not in name and name not in ("initializer_range", "id2label",
                                                      "confidence_threshold")}


def build_parser() -> Parser:
    head, _, rest = __doc__.partition("\n\n")
    parser = Parser(prog="bert.pretrain", description=head, epilog=rest.rpartition("\n\n")[2])
    parser.add_argument("--corpus", type=Path, nargs="*", default=[], metavar="FILE",
                        help="documents: one sentence a line, a blank line between documents")
    parser.add_argument("--lines", type=Path, nargs="*", default=[], metavar="FILE",
                        help="independent lines: masked language model only")
    parser.add_argument("--tokenizer", type=Path, required=True,
                        help="folder with tokenizer.json (from bert.train_tokenizer)")
    parser.add_argument("--run-dir", type=Path, required=True,
                        help="folder for the saved state, the metrics and the tokenised corpus")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint folder to write")
    parser.add_argument("--start-from", type=Path, metavar="CHECKPOINT",
                        help="begin with the weights of a checkpoint instead of random ones")
    parser.add_argument("--max-steps", type=int, help="stop after this many steps; 2 is a dry run")
    add_options(parser.add_argument_group("training"), PretrainConfig)
    add_options(parser.add_argument_group("network"), BertConfig,
                without=("vocab_size",))  # the tokenizer says it
    parser.set_defaults(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    tune_machine()
    with parser.one_sentence():
        if not arguments.corpus and not arguments.lines:
            raise ValueError("no text: give --corpus or --lines")
        tokenizer = WordPieceTokenizer.load(arguments.tokenizer / "tokenizer.json")
        arguments.vocab_size = len(tokenizer)
        config = read_options(arguments, BertConfig)
        settings = read_options(arguments, PretrainConfig)
        if settings.sequence_length > config.max_position_embeddings:
            raise ValueError(f"--sequence-length {settings.sequence_length} is more than "
                             f"--max-position-embeddings {config.max_position_embeddings}")
        processes = Processes.join()
        corpus = processes.main_first(lambda: TokenCorpus.prepare(
            arguments.run_dir / "tokens", tokenizer, arguments.corpus, arguments.lines))
        if arguments.corpus and np.diff(corpus.documents).max() < 2:
            raise ValueError(f"{arguments.corpus[0]} has no document of two sentences or more: put "
                             "one sentence on a line and a blank line between documents, or give "
                             "the file as --lines")
        print(f"{len(corpus.ids):,} pieces, {len(corpus.sentences) - 1:,} sentences, "
              f"{corpus.num_documents:,} documents", flush=True)
        pretrain(config, settings, corpus, tokenizer, arguments.run_dir, arguments.out, processes,
                 arguments.max_steps, arguments.start_from)
        processes.leave()


if __name__ == "__main__":
    main()
