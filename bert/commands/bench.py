"""How fast, beside what people would use instead: every figure is a ratio from one run.

    python -m bert bench                              all sections, about fifteen minutes
    python -m bert bench model training --out speed.json
    python -m bert bench --quick                      a minute: does it run?

Sections: model, training, start, page, load. Ours and the peer take turns in processes of their
own; a ratio is the median over the rounds, with its quartiles. Without --checkpoint and without
checkpoints/emotion a random model of the shipped shape is used. Besides the model itself, the peers
are needed: pip install -r tests/requirements.txt, and Chromium for the page.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from bert.arguments import Parser, described_call, positive
from bert.checkpoint import checkpoint_folder
from bert.commands.bench_app import bench_load, bench_page, bench_start
from bert.commands.bench_model import bench_model, bench_training
from bert.commands.measuring import ROOT, Bench, Comparison, save_random_model
from bert.errors import UserError

SHIPPED = ROOT / "checkpoints" / "emotion"
SECTIONS: dict[str, Callable[[Bench], Iterator[Comparison]]] = {
    "model": bench_model, "training": bench_training, "start": bench_start, "page": bench_page,
    "load": bench_load}


def figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def print_row(row: dict[str, Any]) -> None:
    ours, theirs, ratio = row["ours"]["median"], row["theirs"]["median"], row["ratio"]
    quartiles = f"({figure(ratio['low'])}–{figure(ratio['high'])})"
    print(f"{row['section']:<9}{row['what']:<52}{figure(ours):>12}{figure(theirs):>12} "
          f"{row['unit']:<9}{figure(ratio['median']):>7}× {quartiles:<16}{row['bar']:<8}"
          f"{row['peer']}", flush=True)


def measure(bench: Bench, names: Sequence[str]) -> list[dict[str, Any]]:
    """Run the sections; each row is printed as soon as it is known."""
    print(f"{'section':<9}{'what':<52}{'ours':>12}{'theirs':>12} {'unit':<9}{'ratio':>8} "
          f"{'(quartiles)':<16}{'wanted':<8}against", flush=True)
    rows = []
    for name in names:
        for comparison in SECTIONS[name](bench):
            rows.append(comparison.to_dict())
            print_row(rows[-1])
    return rows


def build_parser() -> Parser:
    head, _, rest = __doc__.partition("\n\n")
    parser = Parser(prog="bert bench", description=head, epilog=rest.rpartition("\n\n")[2])
    parser.add_argument("sections", nargs="*", metavar="SECTION",
                        help="model, training, start, page, load (default: all)")
    parser.add_argument("--quick", action="store_true", help="one short round of everything")
    parser.add_argument("--checkpoint", type=Path,
                        help="folder or Hub id (default: checkpoints/emotion, or a random model)")
    parser.add_argument("--max-steps", type=positive, help="most rounds of a measurement")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the figures there")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as spare, parser.one_sentence():
        unknown = sorted(set(arguments.sections) - set(SECTIONS))
        if unknown:
            raise UserError(f"no section {unknown[0]!r}: choose from {', '.join(SECTIONS)}")
        checkpoint = arguments.checkpoint and checkpoint_folder(arguments.checkpoint)
        os.environ["HF_HUB_OFFLINE"] = "1"  # the peers have their weights from us
        if checkpoint is None and SHIPPED.is_dir():
            checkpoint = SHIPPED
        if checkpoint is None:
            checkpoint = Path(spare) / "random"
            save_random_model(checkpoint)
            print(f"{SHIPPED} does not exist: a random model of the same shape is used")
        bench = Bench(checkpoint, arguments.quick, arguments.max_steps)
        rows = measure(bench, arguments.sections or list(SECTIONS))
        if arguments.out is not None:
            arguments.out.write_text(json.dumps({
                "command": described_call("bench"),
                "checkpoint": str(checkpoint), "processors": os.cpu_count(),
                "threads": torch.get_num_threads(), "torch": torch.__version__,
                "rows": rows}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            print(f"saved {arguments.out}")


if __name__ == "__main__":
    main()
