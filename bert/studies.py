"""Every study of the microscope, by the name it has in the address."""

from bert.lab import Study
from bert.probes import LENS

STUDIES: dict[str, Study] = {study.name: study for study in (LENS,)}
