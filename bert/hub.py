"""Models of the Hugging Face Hub by their names: `klue/bert-base` -> the folder that holds it.

Only a name OWNER/MODEL that is no folder here is looked up: on the Hub if it can be reached, else
in the cache that `huggingface_hub` shares with transformers. Only what is asked for is fetched.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from bert.errors import UserError

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
LONGEST_REASON = 160  # characters


def is_hub_id(source: Path | str) -> bool:
    """Whether OWNER/MODEL can only be meant for the Hub: there is no folder OWNER here.

    >>> is_hub_id("klue/bert-base"), is_hub_id("checkpoints/emotoin"), is_hub_id("./klue/bert-base")
    (True, False, False)
    """
    name = source.as_posix() if isinstance(source, Path) else source
    return bool(HUB_ID.fullmatch(name)) and not Path(name.partition("/")[0]).exists()


def fetch(name: str, files: Sequence[str]) -> Path:
    """The folder in which those files of a model are, as far as it has them."""
    from huggingface_hub import errors, snapshot_download
    try:
        return Path(snapshot_download(name, allow_patterns=list(files)))
    except errors.GatedRepoError:
        raise UserError(f"{name} is open only to those who were let in: ask for access on its page "
                        "of the Hub and log in with `hf auth login`") from None
    except errors.RepositoryNotFoundError:
        raise UserError(f"{name} is neither a folder here nor a public model on the Hub: check the "
                        "name, or log in with `hf auth login` if it is private") from None
    except (OSError, errors.HTTPError, errors.HFValidationError) as error:
        reason = " ".join(str(error.__cause__ or error).split())[:LONGEST_REASON]
        raise UserError(f"{name} is no folder, not in this machine's cache, and could not be "
                        f"fetched from the Hub: {reason}") from None
