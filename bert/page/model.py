"""The checkpoint that the page serves: loaded once, when it is first needed."""

import threading
from pathlib import Path

from bert.classifier import EmotionClassifier
from bert.studies.base import StudyContext


class Served:
    """The model behind the page. Importing app.py loads no weights; `python app.py` says which
    ones, and loads them before the first visitor comes."""

    def __init__(self, checkpoint: Path = Path("checkpoints/emotion")) -> None:
        self.checkpoint = checkpoint
        self._lock = threading.Lock()
        self._context: StudyContext | None = None

    @property
    def context(self) -> StudyContext:
        """What the studies share; visitors who come at the same time wait for one loading."""
        with self._lock:
            if self._context is None:
                self._context = StudyContext(EmotionClassifier.load(self.checkpoint))
            return self._context

    @property
    def classifier(self) -> EmotionClassifier:
        return self.context.classifier
