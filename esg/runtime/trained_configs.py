"""What policy `aquatope` has learnt, as a file: a config for every stage of every application.

    {"image-classification": {"super-resolution": [2, 4, 1, ""], ...}, ...}

`esg train` writes it, and a live controller reads it (`controller.trained`).
"""

import json
from pathlib import Path

from esg.core.messages.codec import decode, to_text
from esg.core.policies.settings import Trained
from esg.errors import Rejected


def learnt_text(learnt: Trained) -> str:
    """What the file says.

    >>> from esg.core.catalog.config import Config
    >>> learnt_text({"app": {"stage": Config(2, 4, 1)}})
    '{"app":{"stage":[2,4,1,""]}}\\n'
    """
    return to_text(learnt) + "\n"


def read_learnt(path: Path) -> Trained:
    try:
        return decode(Trained, json.loads(path.read_text("utf-8")))
    except OSError as error:
        raise Rejected(f"{path}: {error.strerror}; `esg train {path}` writes it") from None
    except (ValueError, RecursionError, Rejected) as error:
        why = str(error)[:200]
        raise Rejected(f"{path}: {why}; write it anew with `esg train {path}`") from None
