"""The scripts of the page as one file: forty small ones would be asked for one after the other.

Every script in assets/page is a module; here it becomes a function that runs when it is first used:

    import { say } from "../common/boot.js";      const { say } = await use("common/boot.js");
    export function mount(element) { … }          function mount(element) { … } return { mount };
    import(`../studies/${name}.js`)               use(`studies/${name}.js`)
"""

import hashlib
import json
import posixpath
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from bert.drawing.texts import PAGE
from bert.page.boot import boot_data

IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";', re.MULTILINE)
IMPORT_LATER = re.compile(r"import\(`([^`]+)`\)")
EXPORT = re.compile(r"^export ((?:async )?function|const|class) (\w+)", re.MULTILINE)
USE = "export const use = (path) => (used[path] ??= modules[path]());\n"


def as_function(path: Path) -> str:
    """One script as an entry of the table of all."""
    name = path.relative_to(PAGE).as_posix()

    def there(address: str) -> str:
        return posixpath.normpath(posixpath.join(posixpath.dirname(name), address))

    source = path.read_text(encoding="utf-8")
    exported = [found[2] for found in EXPORT.finditer(source)]
    source = EXPORT.sub(r"\1 \2", source)
    source = IMPORT.sub(lambda found: f"const {{{found[1].replace(' as ', ': ')}}} = "
                                      f"await use({json.dumps(there(found[2]))});", source)
    source = IMPORT_LATER.sub(lambda found: f"use(`{there(found[1])}`)", source)
    return (f"{json.dumps(name)}: async () => {{\n{source}"
            f"return {{ {', '.join(exported)} }};\n}},\n")


@lru_cache(maxsize=1)
def scripts() -> str:
    """All scripts; `use("components/bars.js")` gives what one of them exports."""
    entries = "".join(map(as_function, sorted(PAGE.rglob("*.js"))))
    return f"const used = {{}};\nconst modules = {{\n{entries}}};\n{USE}"


def known(data: dict[str, Any]) -> str:
    """What scripts know before they ask, as the first line of a script."""
    return f"globalThis.microscopeBoot = {as_script(data)};\n"


def as_script(data: Any) -> str:
    """Data inside a script: no text in it can end the element around it."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def styles() -> str:
    return "".join((PAGE / name).read_text(encoding="utf-8")
                   for name in ("style.css", "studies.css"))


@lru_cache(maxsize=1)
def served() -> dict[str, tuple[str, str]]:
    """What the page fetches from us, {address: (content, media type)}. Another version has another
    address, so that a browser may keep it and never mixes old and new."""
    files = {"js": (known(boot_data()) + scripts(), "text/javascript"),
             "css": (styles(), "text/css")}
    return {f"microscope/{hashlib.sha256(content.encode()).hexdigest()[:16]}.{ending}":
            (content, kind) for ending, (content, kind) in files.items()}


def address_of(ending: str) -> str:
    return next(address for address in served() if address.endswith(ending))
