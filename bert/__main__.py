"""`python -m bert COMMAND`: the commands, each in a line."""

import sys
from importlib import import_module

COMMANDS = {
    "predict": "which of the ten feelings a text holds",
    "fill": "which piece stood behind [MASK]",
    "follows": "whether a second text follows the first",
    "train": "make both checkpoints, all stages in order",
    "train_tokenizer": "learn the vocabulary from text files",
    "pretrain": "guess masked pieces and next sentences",
    "distill": "learn the sentence vectors of larger models",
    "finetune": "learn the ten feelings from labelled lines",
    "evaluate": "measure a checkpoint",
    "baseline": "fit the linear model to beat",
    "bench": "measure speed beside what people would use instead",
    "screenshots": "take the pictures of the README",
}


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("--help", "-h"):
        print("usage: python -m bert COMMAND [options]\n")
        print("\n".join(f"  {name:<16} {purpose}" for name, purpose in COMMANDS.items()))
        print("\npython -m bert COMMAND --help explains one.")
    elif name in COMMANDS:
        import_module(f"bert.commands.{name}").main(sys.argv[2:])
    else:
        sys.stderr.write(f"bert: there is no command {name[:40]!r}: choose one of "
                         f"{', '.join(COMMANDS)}\n")
        raise SystemExit(2)


if __name__ == "__main__":
    main()
