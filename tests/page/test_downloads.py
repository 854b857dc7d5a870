"""Files to take away, downloaded in a real browser."""

import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
from page_helpers import KOREAN


def test_the_download_buttons_give_valid_files(visit, classifier):
    with visit(f"text={KOREAN}&layer=1&head=1") as page:
        page.locator(".stage .download summary").click()
        found = {}
        for name in ("heatmap.png", "bars.svg", "card.pdf", "numbers.csv", "numbers.npz",
                     "numbers.json"):
            with page.expect_download() as caught:
                page.locator(f'.stage [data-file="{name}"]').click()
            found[name] = Path(caught.value.path()).read_bytes()
        assert found["heatmap.png"].startswith(b"\x89PNG")
        ElementTree.fromstring(found["bars.svg"])
        assert found["card.pdf"].startswith(b"%PDF-")
        prediction = classifier(KOREAN)
        assert found["numbers.csv"].decode("utf-8-sig").count("\n") == len(prediction.tokens) + 1
        np.testing.assert_allclose(np.load(io.BytesIO(found["numbers.npz"]))["attentions"],
                                   prediction.attentions, atol=1e-6)
        assert json.loads(found["numbers.json"])["text"] == KOREAN
        assert json.loads(found["numbers.json"])["link"] == page.url
