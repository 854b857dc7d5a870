"""The page of the emotion microscope: type a text, see its feeling, look inside the model.

    python app.py [--checkpoint DIR] [--host H] [--port N]

`main` loads the classifier, `build_demo` makes the page and its endpoints, `launch_options` says
how it is served. The page itself is drawn in the browser by assets/page from one answer per text.
"""

import base64
import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

try:
    if sys.version_info < (3, 11):  # noqa: UP036
        raise ImportError(f"Python {sys.version_info[0]}.{sys.version_info[1]} is too old: start "
                          "it with Python 3.11 or later")
    import gradio as gr
    import numpy as np
    from fastapi.exceptions import RequestValidationError
    from gradio.route_utils import FnIndexInferError
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Mount
    from starlette.staticfiles import StaticFiles

    from bert.arguments import Parser
    from bert.classifier import EmotionClassifier, Prediction
    from bert.cpu import configure_cpu
    from bert.drawing.texts import PAGE, colours, speaks_of_self_harm, texts
    from bert.errors import UserError
    from bert.explain.gradients import attribute
    from bert.page import downloads as exports
    from bert.page.answer import answer_data
    from bert.page.limits import Gate
    from bert.studies import GROUPS, STUDIES
    from bert.studies.base import LONGEST, Study, StudyContext, class_list
except ModuleNotFoundError as missing:
    sys.stderr.write(f"app.py: {missing.name} is missing: run `python -m pip install -r "
                     "requirements.txt`, then start again\n")
    raise SystemExit(2) from None
except (ImportError, OSError) as error:
    sys.stderr.write(f"app.py: {error}\n")
    raise SystemExit(2) from None

FIRST_PORT, PORTS_TRIED = 7860, 100
FONTS = PAGE.parent / "fonts"
NUM_AT_ONCE = max(os.cpu_count() or 1, 2)  # texts being worked on
AT_ONCE = threading.BoundedSemaphore(NUM_AT_ONCE)
UNREADABLE = 'The request cannot be read: send JSON such as {"data": ["a text"]}.'
UNKNOWN = "There is no such endpoint: choose predict or attention."
FAILED = ("Something went wrong here, and the server has noted it: try another text. "
          "문제가 생겨서 서버에 적어 두었어요: 다른 글로 해 보세요.")


# ---------------------------------------------------------------------------------- the model


def read(classifier: EmotionClassifier, text: str) -> Prediction:
    """One forward pass with all attention; without a classifier there are no probabilities."""
    if classifier.checkpoint.has_classifier:
        return classifier(text)
    encoding, attentions = classifier.attentions(text)
    return Prediction(encoding, (), np.zeros(0, dtype=np.float32), False, attentions)


def describe(classifier: EmotionClassifier) -> dict:
    """What the page says of the checkpoint."""
    checkpoint = classifier.checkpoint
    keys = classifier.keys if checkpoint.has_classifier else ()
    return {"name": checkpoint.name, "hash": checkpoint.digest(),
            "classes": class_list(keys), "has_classifier": checkpoint.has_classifier,
            "threshold": classifier.config.confidence_threshold,
            "limit": classifier.config.max_position_embeddings}


# ---------------------------------------------------------------------------------- input checks


def check_text(text: Any) -> str:
    """The text of a request, or a sentence about what is wrong with it."""
    if not isinstance(text, str):
        raise UserError(f"The text is a {type(text).__name__}: send a string.")
    if len(text) > LONGEST:
        raise UserError(f"The text has {len(text):,} characters: at most {LONGEST:,} are read.")
    return text


def check_number(name: str, value: Any) -> int:
    """A whole number of a request; 3.0 is as good as 3."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or value % 1 or abs(value) >= 1e9:
        shown = repr(value)[:40]
        raise UserError(f"The {name} is {shown}: send a whole number, counted from 1.")
    return int(value)


def find_study(name: Any) -> Study:
    if not isinstance(name, str) or name not in STUDIES:
        raise UserError(f"There is no view {str(name)[:40]!r}: choose one of "
                        f"{', '.join(STUDIES)}.")
    return STUDIES[name]


def one_sentence(handler: Callable) -> Callable:
    """A handler whose complaints reach the caller as one sentence, and which takes its turn."""
    @wraps(handler)
    def checked(*values: Any) -> Any:
        try:
            with AT_ONCE:
                return handler(*values)
        except UserError as error:
            raise gr.Error(str(error), print_exception=False) from None
        except Exception as error:
            raise gr.Error(FAILED) from error  # with its traceback, for whoever runs the server
    return checked


# ---------------------------------------------------------------------------------- endpoints


def add_endpoints(classifier: EmotionClassifier) -> None:
    """The two documented endpoints, and those that the page itself uses."""
    about = lru_cache(maxsize=1)(lambda: describe(classifier))
    context = StudyContext(classifier)

    def predict(text: str) -> dict:
        """The feeling of a text: label, whether the model is confident, and all probabilities.

        At most 5,000 characters are taken; `truncated` says whether the model read all of them.
        """
        answer = classifier(check_text(text)).to_dict()
        return {name: answer[name] for name in
                ("label", "confident", "probabilities", "tokens", "truncated")}

    def attention(text: str, layer: int, head: int) -> dict:
        """Exact attention weights of one head, query × key; layers and heads count from 1."""
        layer, head = check_number("layer", layer), check_number("head", head)
        classifier.check_head(layer, head)
        prediction = read(classifier, check_text(text))
        return {"tokens": prediction.tokens,
                "weights": prediction.attentions[layer - 1, head - 1].tolist()}

    def look(text: str) -> dict:
        """Everything the page draws of one text."""
        prediction = read(classifier, check_text(text))
        return {**answer_data(prediction.encoding, prediction.attentions), "model": about(),
                "probabilities": prediction.probabilities.tolist(),
                "confident": prediction.confident, "care": speaks_of_self_harm(prediction.text)}

    def explain(text: str, key: str) -> dict:
        """How much each piece speaks for or against a class."""
        if not isinstance(key, str):
            raise UserError(f"The class is a {type(key).__name__}: send its key.")
        found = attribute(classifier, check_text(text), key)
        return {"values": found.values.tolist(), "total": found.total, "gained": found.gained,
                "error": found.error}

    def study(text: str, name: str, options: dict) -> dict:
        """The numbers of one view of the microscope."""
        return find_study(name).answer(context, check_text(text), options)

    def export(text: str, what: str, ending: str, options: dict) -> dict:
        """One file to take away, in base64."""
        if isinstance(what, str) and what in STUDIES:
            language = options.get("lang") if isinstance(options, dict) else None
            found = STUDIES[what].answer(context, check_text(text), options,
                                         in_full=ending in ("csv", "json"))
            file = exports.make_study(STUDIES[what], found, ending, language)
        else:
            file = picture_file(text, what, ending, options)
        return {"name": file.name, "type": file.media_type,
                "data": base64.b64encode(file.content).decode("ascii")}

    def picture_file(text: str, what: str, ending: str, options: dict) -> exports.File:
        """The answer or its attention as a file."""
        wanted = exports.Wanted.checked(what, ending, options,
                                        classifier.config.num_hidden_layers,
                                        classifier.config.num_attention_heads)
        return exports.make(read(classifier, check_text(text)), wanted, about())

    for handler in (predict, attention):
        gr.api(one_sentence(handler), api_name=handler.__name__, concurrency_limit=4)
    for name, handler in (("look", look), ("attribute", explain), ("study", study),
                          ("export", export)):
        gr.api(one_sentence(handler), api_name=name, api_visibility="private", queue=False)


# ---------------------------------------------------------------------------------- the page


class Page(gr.Blocks):
    """Blocks whose endpoints get the values of a request as they are: none is taken for a file to
    fetch, none is kept for the visitor's session."""

    async def preprocess_data(self, block_fn: Any, inputs: list, *others: Any,
                              **more: Any) -> list:
        needed = len(block_fn.inputs)
        if len(inputs) < needed:
            raise gr.Error(f"{len(inputs)} of {needed} values were sent: {block_fn.api_name} needs "
                           "all of them.", print_exception=False)
        return inputs[:needed]


def build_demo(classifier: EmotionClassifier) -> gr.Blocks:
    """The page: a place for what the browser draws, and the endpoints behind it."""
    with Page(title=texts()["en"]["title"], analytics_enabled=False, fill_width=True,
              delete_cache=(3600, 3600)) as demo:
        gr.HTML(html_template='<div id="microscope"></div>', js_on_load=None,
                apply_default_css=False)
        add_endpoints(classifier)
    return demo.queue(max_size=200, api_open=True)  # plain POST, on a Space as well


class PageFiles(StaticFiles):
    """Scripts and styles, asked for again each time: a new version never meets an old one."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def refused(status: int, sentence: str) -> Callable:
    """A handler for requests that reach no endpoint."""
    def handle(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": sentence}, status)
    return handle


def head_of_page() -> str:
    """Style, texts, colours, the list of studies and script, for the page's <head>."""
    boot = json.dumps({"texts": texts(), "colours": colours(), "limit": LONGEST, "studies": {
        group: {study.name: study.description() for study in studies}
        for group, studies in GROUPS.items()}}, ensure_ascii=False).replace("<", "\\u003c")
    return ('<link rel="stylesheet" href="microscope/style.css">\n'
            '<link rel="stylesheet" href="microscope/studies.css">\n'
            '<link rel="preload" href="microscope/fonts/MicroscopeGothic.woff2" as="font" '
            'type="font/woff2" crossorigin>\n'
            f'<script type="application/json" id="microscope-boot">{boot}</script>\n'
            '<script type="module" src="microscope/main.js"></script>')


def launch_options() -> dict[str, Any]:
    """How the page is served; `build_demo(classifier).launch(**launch_options())` is all of it."""
    return {
        "head": head_of_page(), "footer_links": ["api"], "favicon_path": PAGE / "icon.svg",
        "app_kwargs": {"routes": [Mount("/microscope/fonts", PageFiles(directory=FONTS)),
                                  Mount("/microscope", PageFiles(directory=PAGE))],
                       "middleware": [Middleware(Gate, at_once=NUM_AT_ONCE)],
                       "exception_handlers": {
                           RequestValidationError: refused(422, UNREADABLE),
                           FnIndexInferError: refused(404, UNKNOWN),
                           KeyError: refused(404, UNKNOWN), Exception: refused(500, FAILED)}},
        "run_history": False, "ssr_mode": False, "share": False, "enable_monitoring": False,
        "mcp_server": False, "pwa": False, "max_file_size": 1, "state_session_capacity": 100,
        "quiet": True,
    }


# ---------------------------------------------------------------------------------- command line


def free_port(host: str, wanted: int) -> int:
    """The wanted port, or the next one that nobody uses."""
    for port in range(wanted, min(wanted + PORTS_TRIED, 65_536)):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except socket.gaierror:
                raise UserError(f"the host {host!r} is unknown: choose an address of this machine "
                                "such as 127.0.0.1 or 0.0.0.0") from None
            except PermissionError:
                raise UserError(f"port {port} needs more rights: choose 1024 or more") from None
            except OSError as error:
                if error.errno not in (48, 98, 10048):  # taken, on macOS, Linux and Windows
                    raise UserError(f"{host} cannot be served from ({error.strerror}): choose an "
                                    "address of this machine") from None
                continue
            return port
    raise UserError(f"no free port from {wanted} on: choose another with --port")


def build_parser() -> Parser:
    parser = Parser(prog="app.py", description="Serve the emotion microscope as a page.")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoints/emotion"),
                        help="folder or Hub id (default: checkpoints/emotion)")
    parser.add_argument("--host", default=os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1",
                        help="address to serve from (default: GRADIO_SERVER_NAME or 127.0.0.1)")
    parser.add_argument("--port", type=int, default=os.environ.get("GRADIO_SERVER_PORT")
                        or FIRST_PORT, help="port (default: GRADIO_SERVER_PORT or 7860)")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    with parser.one_sentence():
        if not 1 <= arguments.port <= 65_535:
            raise UserError(f"port {arguments.port} does not exist: choose 1024 to 65535")
        configure_cpu()
        classifier = EmotionClassifier.load(arguments.checkpoint)
        port = free_port(arguments.host, arguments.port)
    if port != arguments.port:
        print(f"port {arguments.port} is taken: using {port}")
    try:
        demo = build_demo(classifier)
    except OSError as error:
        parser.error(f"no place for temporary files ({error}): name one with GRADIO_TEMP_DIR")
    _, address, _ = demo.launch(server_name=arguments.host, server_port=port,
                                prevent_thread_lock=True, **launch_options())
    print(f"The emotion microscope is at {address} (Ctrl+C ends it)", flush=True)
    demo.block_thread()


if __name__ == "__main__":
    main()
