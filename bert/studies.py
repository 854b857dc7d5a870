"""Every study of the microscope, by the name it has in the address."""

from bert.bands import BANDS
from bert.comparing import ORDER, PAIR
from bert.lab import Study
from bert.passage import BLOCK, WAY
from bert.probes import LENS, OFF
from bert.report import REPORT
from bert.stages import LIVES
from bert.tasks import BLANK, NEXT
from bert.teaching import TEACH
from bert.tensors import HIDDEN, QKV

STUDIES: dict[str, Study] = {study.name: study for study in (
    WAY, BLOCK, HIDDEN, QKV, LENS, OFF, PAIR, ORDER, LIVES, BLANK, NEXT, TEACH, BANDS, REPORT)}
