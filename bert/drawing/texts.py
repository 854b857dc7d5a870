"""Every string of the page in Korean and English, and what both sides of the page know of them.

The texts of the main page are in assets/page/texts/page.json, those of a study in a file of its
name beside it; the browser gets the same ones.
"""

import json
import re
import unicodedata
from functools import lru_cache
from pathlib import Path
from typing import Literal

from bert.errors import UserError

PAGE = Path(__file__).parents[2] / "assets" / "page"
Language = Literal["en", "ko"]
LANGUAGES: tuple[Language, ...] = ("en", "ko")
# A gap of a string, and the Korean particle behind it that depends on what fills the gap.
GAP = re.compile(r"\{(\w+)\}([”’]?)(?:([이은을])\(([가는를])\)|(\(으\)로))?")
TAG = re.compile("<[^>]*>")
# Words with which people speak of harming themselves. Too many alarms are better than too few: the
# line that answers is calm and changes nothing else.
SELF_HARM = re.compile(
    r"자살|자해|죽고\s*싶|죽어\s*버리고\s*싶|죽는\s*게\s*낫|목숨을\s*끊|극단적(인)?\s*선택"
    r"|살고\s*싶지\s*않|살기\s*싫|사라지고\s*싶|없어지고\s*싶|뛰어내리고\s*싶|손목을\s*긋"
    r"|suicid|kill(ing)?\s+myself|end(ing)?\s+(my\s+life|it\s+all)|tak(e|ing)\s+my\s+own\s+life"
    r"|self[-\s]?harm|(hurt|harm|cut)(ting|ing)?\s+myself|want(ed)?\s+to\s+die"
    r"|wish\s+i\s+(was|were)\s+dead"
    r"|(do\s+not|don['’]?t)\s+want\s+to\s+(live|be\s+alive)|no\s+reason\s+to\s+live|better\s+off\s+dead",
    re.IGNORECASE)


@lru_cache(maxsize=1)
def texts() -> dict[str, dict]:
    """All strings, by language and key."""
    merged: dict[str, dict] = {language: {} for language in LANGUAGES}
    for path in sorted((PAGE / "texts").glob("*.json")):
        for language, strings in json.loads(path.read_text(encoding="utf-8")).items():
            if again := merged[language].keys() & strings.keys():
                raise UserError(f"{path.name} has strings of another file: {sorted(again)}")
            merged[language].update(strings)
    return merged


@lru_cache(maxsize=1)
def colours() -> dict[str, list[str]]:
    """Two tables of 256 colours: "viridis" for weights of 0 to 1, "signed" for −limit to limit."""
    return json.loads((PAGE / "colours.json").read_text(encoding="utf-8"))


def say(language: str, key: str, **values: object) -> str:
    """One string of the page with its values filled in: say("en", "layer_n", n=3) -> 'Layer 3'."""
    return GAP.sub(lambda gap: _filled(gap, str(values[gap[1]])), texts()[language][key])


def _filled(gap: re.Match, value: str) -> str:
    """A gap with its value and the particle that fits: 슬픔이, 분노가; 슬픔으로, 분노로.

    It depends on the last syllable, tags left out: whether it ends in a consonant. Behind anything
    but Hangul both forms stay.
    """
    _, quote, closed, opened, towards = gap.groups()
    last = TAG.sub("", value)[-1:]
    if not "가" <= last <= "힣":
        return value + gap[0].removeprefix(f"{{{gap[1]}}}")
    final = (ord(last) - ord("가")) % 28  # 0: no consonant, 8: ㄹ
    if towards:
        return value + quote + ("로" if final in (0, 8) else "으로")
    return value + quote + ((closed if final else opened) or "")


def speaks_of_self_harm(text: str) -> bool:
    """Whether a text should be answered with a line that points to help."""
    plain = unicodedata.normalize("NFC", text)
    visible = "".join(c for c in plain if unicodedata.category(c) != "Cf")
    return bool(SELF_HARM.search(visible))
