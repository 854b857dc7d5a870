"""The page of the emotion microscope: type a text, see its feeling, look inside the model.

    python app.py [--checkpoint DIR] [--host H] [--port N]
    gradio app.py                                            starts again when a file changes

Read `demo` from top to bottom: the parts of the page, then what happens when somebody uses them.
Parts that Gradio has are Gradio's; bars, attention and studies are in bert/page/components.py.
"""

import base64
import json
import os
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

try:
    if sys.version_info < (3, 11):  # noqa: UP036
        raise ImportError(f"Python {sys.version_info[0]}.{sys.version_info[1]} is too old: start "
                          "it with Python 3.11 or later")
    import gradio as gr

    from bert.arguments import Parser
    from bert.cpu import configure_cpu
    from bert.drawing.texts import LANGUAGES, texts
    from bert.errors import UserError
    from bert.explain.relevance import attribute
    from bert.page import downloads, visit
    from bert.page.components import Address, Attention, Bars, Gallery, Strip, StudyView, Tour
    from bert.page.frame import check_machine, describe_arguments, launch_options
    from bert.page.limits import FAILED
    from bert.page.model import Served
    from bert.page.standalone import standalone
    from bert.page.visit import Chat, Visit
    from bert.studies import GROUPS, STUDIES
    from bert.studies.base import LONGEST, Matrix, Study, plain
    from bert.tokenizer import clean
    check_machine()
except ModuleNotFoundError as missing:
    sys.stderr.write(f"app.py: {missing.name} is missing: run `python -m pip install -r "
                     "requirements.txt`, then start again\n")
    raise SystemExit(2) from None
except (ImportError, OSError) as error:
    sys.stderr.write(f"app.py: {error}\n")
    raise SystemExit(2) from None

FIRST_PORT, PORTS_TRIED = 7860, 100
model = Served()  # the checkpoint, loaded when it is first asked


# ---------------------------------------------------------------------------------- input checks


def check_text(text: Any) -> str:
    """The text of a request, cut to what is read, or a sentence about what is wrong with it."""
    if not isinstance(text, str):
        raise UserError(f"The text is a {type(text).__name__}: send a string.")
    return text[:LONGEST]


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
    """A handler whose complaints reach the visitor as one sentence; a bug keeps its traceback."""
    @wraps(handler)
    def checked(*values: Any) -> Any:
        try:
            return handler(*values)
        except UserError as error:
            raise gr.Error(str(error), print_exception=False) from None
        except Exception as error:
            raise gr.Error(FAILED) from error
    return checked


# ---------------------------------------------------------------------------------- the chat


def sent_text(text: Any, now: Visit) -> str:
    """The text that was sent: from the box, or from a card or a link."""
    return clean(check_text(text if now.text is None else now.text))


def say(text: str, told: str) -> tuple[Any, Any, Any]:
    """A text is sent: bars and attention at once; when they are painted, the reply is asked for.
    The box is emptied here: whatever is in it later is the next text."""
    now = Visit.read(told)
    text = sent_text(text, now)
    if not text.strip():
        return gr.skip(), gr.skip(), ""
    now = now.saying(text)
    return (visit.answer(model.classifier_of(now.taught), now),
            now.model_copy(update={"is_new": True}).model_dump_json(), "")


def add_bubble(text: str, chat: Chat, told: str) -> tuple[Chat, Any]:
    """The same text as a bubble of the chat, once its picture is painted."""
    now = Visit.read(told)
    text = sent_text(text, now)
    if not text.strip():
        return chat, gr.skip()
    chat = chat[max(len(chat) - 2 * (len(now.saying(text).texts) - 1), 0):]  # what is still known
    return [*chat, visit.said(text)], gr.update(visible=False)


def reply(chat: Chat, told: str) -> tuple[Any, Any]:
    """The reply to the last text, and which of its words speak for it. Who sends two texts at once
    may have lost a bubble to the other's answer: then the chat is told again."""
    now = Visit.read(told)
    roles = [message["role"] for message in chat]
    is_complete = roles.count("user") >= min(len(now.texts), visit.REPLAYED)
    if not now.texts or (is_complete and roles[-1:] == ["assistant"]):
        return gr.skip(), gr.skip()
    if not is_complete or roles != ["user", "assistant"] * (len(roles) // 2) + ["user"]:
        return visit.conversation(model.classifier_of(now.taught), now)
    text = now.texts[-1]
    found, attribution = visit.explained(model.classifier_of(now.taught), text, now.lang)
    return [*chat, visit.answered(found)], visit.strip_value(text, attribution)


def show(told: str) -> str:
    """A text of the conversation comes on show, its last one when the page is opened."""
    now = Visit.read(told)
    return visit.answer(model.classifier_of(now.taught), now)


def colour_words(told: str) -> str:
    """Which words of the text on show speak for its answer."""
    now = Visit.read(told)
    return visit.colour_words(model.classifier_of(now.taught), now)


def choose_message(chat: Chat, told: str, picked: gr.SelectData) -> str:
    """A bubble was clicked: its text comes on show."""
    now = Visit.read(told)
    place = picked.index[0] if isinstance(picked.index, list) and picked.index else picked.index
    if not isinstance(place, int):
        raise UserError(visit.RELOAD)
    return now.choosing(chat, place).model_dump_json()


def follow_up(picked: gr.SelectData) -> str:
    """A question under an answer was clicked: the browser is led to the view that answers it."""
    try:
        return json.dumps({"go": json.loads(picked.value)}, ensure_ascii=False)
    except (TypeError, ValueError):
        raise UserError(visit.RELOAD) from None


def recall(told: str) -> tuple[Chat, str]:
    """The conversation as it was, in the language of the page, when that is opened or reloaded, or
    its language changes."""
    now = Visit.read(told)
    return visit.conversation(model.classifier_of(now.taught), now)


def clear(told: str) -> tuple[Chat, str, str, Any, str]:
    """The conversation was emptied; it is kept until it is brought back or another begins."""
    return [], "", "", gr.update(visible=True), told


def undo_clear(kept: str, told: str) -> tuple[str, Any, str]:
    """Bring back what was cleared, in the language of the page."""
    now = Visit.read(told)
    back = Visit.read(kept).model_copy(update={"lang": now.lang, "taught": now.taught})
    return (visit.answer(model.classifier_of(back.taught), back), gr.update(visible=False),
            back.model_dump_json())


# ---------------------------------------------------------------------------------- endpoints


def predict(text: str) -> dict:
    """Read the feeling of a text, in Korean or English.

    Parameters:
        text: what somebody wrote; at most 5,000 characters are read
    Returns:
        the likeliest label, whether the model is confident, all probabilities, the tokens it read
    """
    answer = model.classifier(check_text(text)).to_dict()
    return {name: answer[name] for name in
            ("label", "confident", "probabilities", "tokens", "truncated")}


def attention(text: str, layer: int, head: int) -> dict:
    """Give the exact attention weights of one head on a text.

    Parameters:
        text: what somebody wrote; at most 5,000 characters are read
        layer: the layer, counted from 1
        head: the head, counted from 1
    Returns:
        the tokens, and a row of weights for each: how much it looks at every token
    """
    layer, head = check_number("layer", layer), check_number("head", head)
    model.classifier.check_head(layer, head)
    prediction = visit.read(model.classifier, check_text(text))
    return {"tokens": prediction.tokens,
            "weights": prediction.weights[layer - 1, head - 1].tolist()}


# The page says with each of these which copy it means: "" is the model itself.


def words_for(text: str, key: str, taught: str) -> dict:
    """How much each piece speaks for or against a class."""
    classifier = model.classifier_of(taught)
    if not isinstance(key, str):
        raise UserError(f"The class is a {type(key).__name__}: send its key.")
    return {"values": attribute(classifier, check_text(text), key).values.tolist()}


def moved(text: str, taught: str) -> dict:
    """How much each look moves: value-weighted attention of every head."""
    shares = visit.moved_shares(model.classifier_of(taught), check_text(text))
    return plain(Matrix(shares.reshape(-1, *shares.shape[2:]), "weights"))


def study(text: str, name: str, options: dict, taught: str) -> dict:
    """The numbers of one study."""
    context = model.context_of(taught)
    return find_study(name).answer(context, check_text(text), options)


def export(text: str, what: str, ending: str, options: dict, taught: str) -> dict:
    """One file to take away, in base64."""
    text = check_text(text)
    context = model.context_of(taught)
    classifier = context.classifier
    if (what, ending) == ("answer", "html"):
        file = downloads.File("answer.html", "text/html", standalone(
            classifier, text, *downloads.page_options(options)).encode())
    elif isinstance(what, str) and what in STUDIES:
        language = options.get("lang") if isinstance(options, dict) else None
        found = STUDIES[what].answer(context, text, options, in_full=ending in ("csv", "json"))
        file = downloads.make_study(STUDIES[what], found, ending, language)
    else:
        config = classifier.config
        wanted = downloads.Wanted.checked(what, ending, options, config.num_hidden_layers,
                                          config.num_attention_heads)
        if wanted.is_moved:
            wanted = replace(wanted, moved=visit.moved_shares(classifier, text))
        file = downloads.make(visit.read(classifier, text), wanted, visit.describe(classifier))
    return {"name": file.name, "type": file.media_type,
            "data": base64.b64encode(file.content).decode("ascii")}


# ---------------------------------------------------------------------------------- the page

WORDS = texts()["en"]  # of the page as it is first sent; `labels` has them in either language
FRONT: dict[str, Any] = {"queue": False, "api_visibility": "private",
                         "show_progress": "hidden"}  # of our events

with gr.Blocks(title=WORDS["title"], analytics_enabled=False, fill_width=True,
               delete_cache=(3600, 3600)) as demo:
    address = Address(visible="hidden")
    with gr.Row(elem_classes="masthead"):
        title = gr.Markdown(f"# {WORDS['title']}\n{WORDS['tagline']}", elem_classes="title")
        tour_button = gr.Button(WORDS["tour_name"], size="sm", scale=0, min_width=90)
        link_button = gr.Button(WORDS["copy_link"], size="sm", scale=0, min_width=90)
        language_button = gr.Button(WORDS["language"], size="sm", scale=0, min_width=70)
        theme_button = gr.Button(WORDS["theme"], size="sm", scale=0, min_width=90,
                                 elem_id="theme")
    with gr.Row(equal_height=False):
        with gr.Column(scale=2, min_width=330, elem_classes="left"):
            chat = gr.Chatbot(label=WORDS["chat"], height=280, buttons=[], show_label=False,
                              placeholder=WORDS["chat_empty"], latex_delimiters=[],
                              elem_id="chat", feedback_options=None, allow_file_downloads=False)
            undo_button = gr.Button(WORDS["undo_clear"], size="sm", visible=False)
            text = gr.Textbox(label=WORDS["your_text"], placeholder=WORDS["placeholder"], lines=1,
                              max_lines=6, max_length=LONGEST, submit_btn=WORDS["send"],
                              autofocus=True, elem_id="your-text", info=WORDS["privacy"])
            examples = {language: gr.Examples(texts()[language]["example_texts"], text,
                                              label=texts()[language]["examples"],
                                              elem_id=f"examples-{language}",
                                              visible=language == "en", api_visibility="private")
                        for language in LANGUAGES}
            bars = Bars()
        with gr.Column(scale=3, min_width=330, elem_classes="right"):
            strip = Strip()
            with gr.Tabs(selected="attention") as tabs:
                with gr.Tab(WORDS["group_attention"], id="attention") as attention_tab:
                    Attention()
                group_tabs: dict[str, gr.Tab] = {}
                inner_tabs: dict[str, gr.Tabs] = {}
                study_tabs: dict[str, gr.Tab] = {}
                for group, studies in GROUPS.items():
                    with gr.Tab(WORDS[f"group_{group}"], id=group) as group_tabs[group]:
                        with gr.Tabs(selected=studies[0].name) as inner_tabs[group]:
                            for one in studies:
                                with gr.Tab(WORDS[f"study_{one.name}"],
                                            id=one.name) as study_tabs[one.name]:
                                    StudyView(one.name)
    Gallery()
    Tour()
    kept = gr.State("")  # the conversation that was cleared last

    # A text is sent; the browser says which texts came before it. Bars and attention are painted
    # first, then its bubble appears, then the reply.
    sent: dict[str, Any] = {"fn": one_sentence(say), "inputs": [text, address],
                            "outputs": [bars, address, text],
                            "js": "(text) => microscope.sent(text)"}
    bubble: dict[str, Any] = {"fn": one_sentence(add_bubble), "inputs": [text, chat, address],
                              "outputs": [chat, undo_button],
                              "js": "(text, chat) => microscope.bubble(text, chat)"}
    for begins in (text.submit, *(rows.load_input_event.then for rows in examples.values())):
        begins(**sent, **FRONT)
        begins(**bubble, **FRONT).then(None, js="() => microscope.told()")
    address.say(**{**sent, "js": None}, **FRONT)
    address.say(**{**bubble, "js": None}, **FRONT).then(None, js="() => microscope.told()")
    address.reply(one_sentence(reply), [chat, address], [chat, strip], **FRONT)

    # The conversation: a bubble or a question is clicked, the page is opened, language, clear.
    chat.select(one_sentence(choose_message), [chat, address], address,
                js="(chat) => [chat, microscope.visit()]", **FRONT).then(
        one_sentence(show), address, bars, **FRONT).then(
        one_sentence(colour_words), address, strip, **FRONT)
    chat.option_select(one_sentence(follow_up), None, address, **FRONT)
    address.show(one_sentence(show), address, bars, **FRONT).then(
        one_sentence(colour_words), address, strip, **FRONT)
    chat.clear(one_sentence(clear), address, [chat, bars, strip, undo_button, kept],
               js="() => [microscope.visit()]", **FRONT)
    undo_button.click(one_sentence(undo_clear), [kept, address], [bars, undo_button, address],
                      js="(kept) => [kept, microscope.visit()]", **FRONT).then(
        one_sentence(recall), address, [chat, strip], **FRONT)

    # Tabs: opened by hand they tell the browser's scripts, opened by a script they follow it.
    for name, tab in {"attention": attention_tab, **group_tabs, **study_tabs}.items():
        tab.select(None, js=f"() => window.microscope?.selected({json.dumps(name)})")
    address.go(None, None, [tabs, *inner_tabs.values()], js="() => microscope.tabs()", **FRONT)

    # The header.
    tour_button.click(None, js="() => microscope.tour()")
    link_button.click(None, None, link_button, js="() => microscope.copyLink()", **FRONT)
    language_button.click(None, js="() => microscope.switchLanguage()")
    theme_button.click(None, js="() => microscope.switchTheme()")

    # What other programs ask, and what the scripts of the page ask.
    for handler in (predict, attention):
        gr.api(one_sentence(handler), api_name=handler.__name__, concurrency_id="api",
               concurrency_limit=2)
        describe_arguments(demo, handler)
    of_the_page: dict[str, Callable] = {"attribute": words_for, "moved": moved, "study": study,
                                        "export": export}
    for name, asked in of_the_page.items():
        gr.api(one_sentence(asked), api_name=name, api_visibility="private", queue=False)

    def labels(told: str) -> list[Any]:
        """Every label of Gradio's own parts in the visitor's language, in the order of `spoken`."""
        language = Visit.read(told).lang
        words = texts()[language]
        return [gr.update(value=f"# {words['title']}\n{words['tagline']}"),
                gr.update(value=words["tour_name"]), gr.update(value=words["copy_link"]),
                gr.update(value=words["language"]), gr.update(value=words["theme"]),
                gr.update(value=words["undo_clear"]),
                gr.update(label=words["chat"], placeholder=words["chat_empty"]),
                gr.update(label=words["your_text"], placeholder=words["placeholder"],
                          submit_btn=words["send"], info=words["privacy"]),
                gr.update(label=words["group_attention"]),
                *(gr.update(visible=own == language) for own in examples),
                *(gr.update(label=words[f"group_{name}"]) for name in group_tabs),
                *(gr.update(label=words[f"study_{name}"]) for name in study_tabs)]

    spoken = [title, tour_button, link_button, language_button, theme_button, undo_button, chat,
              text, attention_tab, *(rows.dataset for rows in examples.values()),
              *group_tabs.values(), *study_tabs.values()]
    address.speak(one_sentence(labels), address, spoken, js="() => [microscope.visit()]", **FRONT)
    address.open(one_sentence(show), address, bars, **FRONT).then(
        one_sentence(recall), address, [chat, strip], **FRONT)
    # Before this, Gradio waits for every part that it has sent: none may leave the page.
    demo.load(None, js="() => { window.isPageLoaded = true; window.microscope?.loaded(); }")

demo.queue(max_size=200, api_open=True)  # plain POST, on a Space as well


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
        configure_cpu(threads=1)
        model.checkpoint = arguments.checkpoint
        _ = model.classifier  # what is wrong with it is said before the page opens
        port = free_port(arguments.host, arguments.port)
    page = demo  # `gradio app.py` puts another one in its place while this one runs
    _, where, _ = page.launch(server_name=arguments.host, server_port=port,
                              prevent_thread_lock=True, **launch_options())
    if where is None:
        return  # it has read a changed file: its server is running
    if port != arguments.port:
        print(f"port {arguments.port} is taken: using {port}")
    print(f"The emotion microscope is at {where} (Ctrl+C ends it)", flush=True)
    page.block_thread()


if __name__ == "__main__":
    main()
