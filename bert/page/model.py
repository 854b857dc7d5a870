"""The checkpoint that the page serves: loaded once, when it is first needed."""

from functools import cached_property
from pathlib import Path

from bert.classifier import EmotionClassifier
from bert.studies.base import StudyContext


class Served:
    """The model behind the page. Importing app.py loads no weights; `python app.py` says which
    ones, and loads them before the first visitor comes."""

    def __init__(self, checkpoint: Path = Path("checkpoints/emotion")) -> None:
        self.checkpoint = checkpoint

    @cached_property
    def classifier(self) -> EmotionClassifier:
        return EmotionClassifier.load(self.checkpoint)

    @cached_property
    def context(self) -> StudyContext:
        """What the studies share."""
        return StudyContext(self.classifier)
