"""The checkpoint that the page serves: loaded once, when it is first needed."""

import threading
from pathlib import Path

from bert.classifier import EmotionClassifier
from bert.errors import UserError
from bert.explain.tuned_lens import TunedLens
from bert.studies import teach
from bert.studies.base import StudyContext


class TaughtContext(StudyContext):
    """A visitor's copy; the stages before it are those of the original."""

    def __init__(self, classifier: EmotionClassifier, original: StudyContext) -> None:
        super().__init__(classifier)
        self.original = original

    @property
    def pretrained(self) -> EmotionClassifier:
        return self.original.pretrained

    @property
    def tuned_lens(self) -> TunedLens | None:
        return None  # was fitted to the original


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

    def context_of(self, taught: str) -> StudyContext:
        """What the studies share; of the copy that a visitor has taught, if its name is given."""
        return TaughtContext(self.classifier_of(taught), self.context) if taught else self.context

    def classifier_of(self, taught: str) -> EmotionClassifier:
        if not isinstance(taught, str):
            raise UserError(f"The copy is a {type(taught).__name__}: send its name.")
        return teach.JOBS.copy(taught) if taught else self.classifier
