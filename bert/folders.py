"""Folders that are replaced as a whole: a reader finds the old one or the new one, never half."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError

from bert.errors import UserError


def replace_folder(folder: Path, write: Callable[[Path], None], marker: str | None = None) -> None:
    """Let `write` fill a fresh folder beside `folder`, then exchange the two.

    What was there is deleted; `marker` names the file by which a folder of the same kind is known.
    """
    folder = folder.resolve()  # a link stays, what it points to is replaced
    check_replaceable(folder, marker)
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        fresh.chmod(0o755)
        write(fresh)
        for path in (*fresh.iterdir(), fresh):
            _flush_to_disk(path)
        if folder.exists():
            _exchange(fresh, folder)
        else:
            fresh.rename(folder)
        _flush_to_disk(folder.parent)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{folder} could not be written ({reason}); what was there before is "
                      "untouched") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def check_replaceable(folder: Path, marker: str | None = None) -> None:
    """Refuse to delete what cannot come from an earlier run: other people's files and folders."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder} is a file: choose a folder that is new, or one from an "
                        "earlier run")
    inside = sorted(folder.iterdir())
    strange = next((path for path in inside if path.is_dir()), None)
    if marker is not None and inside and not (folder / marker).is_file():
        strange = strange or inside[0]
    if strange is not None:
        raise UserError(f"{folder} holds {strange.name}, which would be deleted: choose a folder "
                        "that is new, or one from an earlier run")


def _flush_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _exchange(fresh: Path, folder: Path) -> None:
    """Put the fresh folder in the place of the old one, which ends where the fresh one was. Killed
    between the two moves, both stand beside the place."""
    aside = fresh.with_name(fresh.name + ".old")
    folder.rename(aside)
    try:
        fresh.rename(folder)
    except BaseException:
        aside.rename(folder)
        raise
    aside.rename(fresh)
