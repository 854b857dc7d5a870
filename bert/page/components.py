"""The parts of the page that Gradio does not have: subclasses of gr.HTML, drawn by our scripts.

`assets/page/components/NAME.js` exports `mount(element, {props, watch, trigger, name})`; it is
loaded when Gradio puts the component on the page. The template is constant and values come in
through `props`: text of a visitor never goes through a template.
"""

import json
from typing import Any

import gradio as gr

from bert.page.scripts import address_of

TEMPLATE = '<div class="microscope" data-component="{script}"></div>'
MOUNT = """
const events = {triggers};  // Gradio wants to find their names here
import(new URL("{scripts}", document.baseURI)).then(({{ use }}) => use("components/{script}.js"))
  .then(({{ mount }}) => mount(element.querySelector(".microscope"),
    {{ props, watch, trigger, name: {name} }}));
"""


class Drawn(gr.HTML):
    """A component that a script draws; `triggers` are the events that the script may trigger."""

    script = ""
    triggers: tuple[str, ...] = ()

    def __init__(self, name: str = "", **options: Any) -> None:
        super().__init__(
            html_template=TEMPLATE.format(script=self.script), apply_default_css=False,
            js_on_load=MOUNT.format(scripts=address_of("js"), script=self.script,
                                    triggers=json.dumps(self.triggers), name=json.dumps(name)),
            **options)


class Address(Drawn):
    """Keeps the address, Back and Forward, and the conversation through a reload; has no face.

    Its value is the visit that the browser tells of, {"texts", "current", "lang"}, or where Python
    leads it, {"go": {"tab", …}}.
    """

    script = "address"
    triggers = ("open", "speak", "show", "say", "reply", "go")


class Bars(Drawn):
    """The ten bars. Its value is the whole answer: bars are always on the page, and everything else
    draws from the same copy."""

    script = "bars"


class Strip(Drawn):
    """The text as the model reads it, coloured by attribution, which is its value."""

    script = "strip"


class Attention(Drawn):
    """Heatmap, lines, all heads, all layers, first and last, with their own selectors."""

    script = "attention"


class StudyView(Drawn):
    """One study: assets/page/studies/NAME.js draws what bert/studies/NAME.py computes."""

    script = "study"


class Tour(Drawn):
    """Seven steps through the network on the visitor's own sentence."""

    script = "tour"


class Gallery(Drawn):
    """Six examples worth a look, one click each."""

    script = "gallery"
