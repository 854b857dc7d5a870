"""Every study of the microscope, in the groups and the order of the page's tabs."""

from bert.studies import (
    ablation,
    compare,
    forward,
    head_kinds,
    hidden,
    layer,
    lens,
    masked_word,
    next_sentence,
    probes,
    qkv,
    report,
    stages,
    teach,
    trial,
    word_order,
)
from bert.studies.base import Study

GROUPS: dict[str, tuple[Study, ...]] = {
    "inside": (forward.STUDY, layer.STUDY, hidden.STUDY, qkv.STUDY),
    "answer": (lens.STUDY, trial.STUDY, ablation.STUDY),
    "compare": (compare.STUDY, word_order.STUDY),
    "training": (stages.STUDY, masked_word.STUDY, next_sentence.STUDY, teach.STUDY),
    "model": (head_kinds.STUDY, probes.STUDY, report.STUDY),
}
STUDIES: dict[str, Study] = {study.name: study for group in GROUPS.values() for study in group}
