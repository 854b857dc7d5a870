"""Which of the ten feelings does a text hold?

    python -m bert predict "드디어 해냈다!"                      ten lines, best first
    python -m bert predict                                       asks again and again
    python -m bert predict --input texts.txt --json              one JSON object a line
    python -m bert predict "TEXT" --attention 12 3 --out a.png   a heatmap (.svg .pdf .csv .npz)
    python -m bert predict "TEXT" --out answer.html              one interactive file
"""

import csv
import json
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from io import TextIOWrapper
from itertools import compress, islice
from pathlib import Path

import numpy as np

from bert.arguments import Parser, plain_output, text_lines
from bert.classifier import EMPTY, EmotionClassifier, Prediction
from bert.cpu import configure_cpu
from bert.emotions import display_name
from bert.errors import UserError

LINES_AT_ONCE = 256
FIGURE_ENDINGS, NUMBER_ENDINGS = (".png", ".svg", ".pdf"), (".csv", ".npz")
PAGE_ENDING = ".html"  # the whole answer: needs no --attention


def print_answer(prediction: Prediction) -> None:
    """Ten lines, name and per cent, best first."""
    for key, probability in prediction.ranked():
        print(f"{display_name(key)}\t{probability:.1%}")
    if prediction.truncated:
        print(f"note: only the first {len(prediction.tokens)} pieces were read", file=sys.stderr)


def write_attention(tokens: Sequence[str], weights: np.ndarray, layer: int, head: int,
                    path: Path) -> None:
    """One head's matrix as a picture or as exact numbers."""
    ending = path.suffix.lower()
    if ending == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["query \\ key", *tokens])
            for token, row in zip(tokens, weights, strict=True):
                writer.writerow([token, *(repr(float(value)) for value in row)])
    elif ending == ".npz":
        with path.open("wb") as file:  # given a name, numpy would add its own ending to .NPZ
            np.savez(file, tokens=np.array(tokens), weights=weights)
    else:
        from bert.drawing.figures import draw_attention, save_figure
        save_figure(draw_attention(tokens, weights, layer, head), path)


def answer_lines(classifier: EmotionClassifier, lines: Iterable[str]) -> None:
    """One JSON object a line, in order; a blank line gets its error in its place."""
    lines = iter(lines)
    while chunk := list(islice(lines, LINES_AT_ONCE)):
        is_text = [_is_text(classifier, text) for text in chunk]
        answers = iter(classifier.predict_many(list(compress(chunk, is_text))))
        for text, good in zip(chunk, is_text, strict=True):
            answer = next(answers).to_dict() if good else {"text": text.strip(), "error": EMPTY}
            print(json.dumps(answer, ensure_ascii=False))
        sys.stdout.flush()


def print_lines(classifier: EmotionClassifier, lines: Iterable[str]) -> None:
    """Each text with its ten lines; blank lines are passed over."""
    for line in lines:
        if _is_text(classifier, line):
            prediction = classifier(line)
            print(f"# {prediction.text.strip()}")
            print_answer(prediction)


def _is_text(classifier: EmotionClassifier, text: str) -> bool:
    try:
        classifier.encode(text)
    except UserError:
        return False
    return True


def ask_again_and_again(classifier: EmotionClassifier) -> None:
    """The chat on a terminal: ends with an empty line, the end of input or Ctrl-C."""
    if isinstance(sys.stdin, TextIOWrapper):  # half a deleted syllable is no reason to stop
        sys.stdin.reconfigure(errors="surrogateescape")
    while True:
        try:
            text = input("Your text: ")
            if not text.strip():
                return
            print_answer(classifier(text))
        except (EOFError, KeyboardInterrupt):
            print()
            return
        except UserError as error:
            print(error)


def build_parser() -> Parser:
    parser = Parser(prog="bert predict", description="Which of the ten feelings does a text hold?")
    parser.add_argument("text", nargs="?", help="the text; without it you are asked on a terminal")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoints/emotion"),
                        help="folder or Hub id (default: checkpoints/emotion)")
    parser.add_argument("--input", metavar="FILE", help="one text a line; - is standard input")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--attention", type=int, nargs=2, metavar=("LAYER", "HEAD"),
                        help="save one head's attention, counted from 1; needs --out")
    parser.add_argument("--out", type=Path, metavar="FILE",
                        help="where to: .png, .svg, .pdf, .csv or .npz; or .html, one "
                        "interactive file of the whole answer, without --attention")
    return parser


def check_call(parser: Parser, arguments: Namespace) -> None:
    """Refuse combinations that make no sense, before the model is loaded."""
    if arguments.text is not None and arguments.input is not None:
        parser.error("give a text or --input, not both")
    if arguments.json and arguments.text is None and arguments.input is None:
        parser.error("--json needs a text or --input FILE")
    if arguments.json and arguments.attention is not None:
        parser.error("--json and --attention do not go together")
    is_page = arguments.out is not None and arguments.out.suffix.lower() == PAGE_ENDING
    if is_page and arguments.text is None:
        parser.error("--out FILE.html needs a text")
    if is_page and arguments.json:
        parser.error("--json and --out do not go together")
    if (arguments.attention is None) != (arguments.out is None) and not is_page:
        parser.error("--attention LAYER HEAD and --out FILE go together")
    if arguments.attention is not None:
        if arguments.text is None:
            parser.error("--attention needs a text")
        if not is_page and arguments.out.suffix.lower() not in FIGURE_ENDINGS + NUMBER_ENDINGS:
            parser.error(f"--out {arguments.out} ends in {arguments.out.suffix or 'nothing'}: "
                         f"expected one of {', '.join(FIGURE_ENDINGS + NUMBER_ENDINGS)}")


def run(parser: Parser, arguments: Namespace) -> None:
    if arguments.text is not None and not arguments.text.strip():
        raise UserError(EMPTY)
    classifier = EmotionClassifier.load(arguments.checkpoint)
    if arguments.attention is not None:
        classifier.check_head(*arguments.attention)
    if arguments.out is not None and arguments.out.suffix.lower() == PAGE_ENDING:
        from bert.page.standalone import standalone
        layer, head = arguments.attention or (None, None)
        page = standalone(classifier, arguments.text, layer=layer, head=head)
        arguments.out.write_text(page, encoding="utf-8")
        print(f"saved {arguments.out}")
        return
    if arguments.attention is not None:
        layer, head = arguments.attention
        encoding, weights = classifier.attentions(arguments.text)
        write_attention(encoding.pieces, weights[layer - 1, head - 1], layer, head, arguments.out)
        print(f"saved {arguments.out}")
        return
    classifier.needs_classifier()
    if arguments.text is not None and arguments.json:
        answer_lines(classifier, [arguments.text.replace("\n", " ")])
    elif arguments.text is not None:
        print_answer(classifier(arguments.text))
    elif arguments.input is not None:
        answer = answer_lines if arguments.json else print_lines
        answer(classifier, text_lines(arguments.input))
    elif sys.stdin.isatty():
        ask_again_and_again(classifier)
    else:
        parser.error("no text: give one, or --input FILE")


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    check_call(parser, arguments)
    configure_cpu()
    with parser.one_sentence(), plain_output(arguments.json):
        run(parser, arguments)


if __name__ == "__main__":
    main()
