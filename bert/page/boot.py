"""What the scripts of the page know before they ask anybody."""

from dataclasses import asdict
from typing import Any

from bert.drawing.texts import LANGUAGES, colours, texts
from bert.page.gallery import gallery, study_examples
from bert.page.tour import steps
from bert.studies import GROUPS
from bert.studies.base import LONGEST

PRETRAINING = ("masked_word", "next_sentence")  # the studies with examples of their own
PYTHONS_OWN = ("reply_", "follow_")  # strings that no script shows


def boot_data() -> dict[str, Any]:
    """Texts in both languages, colours, the studies, the tour, the gallery."""
    shown = {language: {key: text for key, text in strings.items()
                        if not key.startswith(PYTHONS_OWN)}
             for language, strings in texts().items()}
    return {"texts": shown, "colours": colours(), "limit": LONGEST,
            "tour": [asdict(step) for step in steps()],
            "gallery": [asdict(example) for example in gallery()],
            "examples": {tab: {language: [asdict(example) for example
                                          in study_examples(tab, language)]
                               for language in LANGUAGES} for tab in PRETRAINING},
            "studies": {group: {study.name: study.description() for study in studies}
                        for group, studies in GROUPS.items()}}
