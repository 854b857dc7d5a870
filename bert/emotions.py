"""The ten feelings, in the one order that every file, chart and checkpoint keeps."""

import colorsys
from dataclasses import dataclass


@dataclass(frozen=True)
class Emotion:
    key: str
    korean: str
    english: str
    colour: str  # told apart by colour-blind readers together with the fixed order and the name


EMOTIONS = (
    Emotion("achievement", "성취", "Achievement", "#E69F00"),
    Emotion("recognition", "인정", "Recognition", "#B8860B"),
    Emotion("security", "안정감", "Security", "#009E73"),
    Emotion("autonomy", "자율성", "Autonomy", "#56B4E9"),
    Emotion("connection", "유대감", "Connection", "#CC79A7"),
    Emotion("joy", "즐거움", "Joy", "#F0C808"),
    Emotion("curiosity", "호기심", "Curiosity", "#7B61C4"),
    Emotion("sadness", "슬픔", "Sadness", "#0072B2"),
    Emotion("anger", "분노", "Anger", "#D1341F"),
    Emotion("anxiety", "불안", "Anxiety", "#7A7A7A"),
)
KEYS = tuple(emotion.key for emotion in EMOTIONS)
OTHER_COLOURS = ("#4C78A8", "#F58518", "#54A24B", "#E45756", "#72B7B2", "#B279A2")
GOLDEN_RATIO = 0.618034  # steps of it around the colour circle stay far from each other
NONE = "none"  # marks a training line without a feeling; never a class


def display_name(key: str) -> str:
    """Both names of a class, or the key itself for a class that is not ours.

    >>> display_name("joy")
    '즐거움 Joy'
    """
    for emotion in EMOTIONS:
        if emotion.key == key:
            return f"{emotion.korean} {emotion.english}"
    return key


def class_colour(key: str, position: int) -> str:
    """A class's own colour; for classes that are not ours one from a plain row, and after its end
    a hue that no other position has."""
    for emotion in EMOTIONS:
        if emotion.key == key:
            return emotion.colour
    if position < len(OTHER_COLOURS):
        return OTHER_COLOURS[position]
    parts = colorsys.hls_to_rgb(position * GOLDEN_RATIO % 1.0, 0.45 + 0.1 * (position % 3), 0.55)
    return "#" + "".join(f"{round(255 * part):02X}" for part in parts)
