"""What the answer owes to each head."""

import pytest

from bert.explain import ablation

KOREAN = "드디어 마라톤을 완주했다"


@pytest.mark.parametrize("at_once", [1, 30, 4_096])
def test_the_map_of_all_heads_is_what_single_runs_give(classifier, monkeypatch, at_once):
    monkeypatch.setattr(ablation, "TOKENS_AT_ONCE", at_once)
    before, alone = ablation.without_each_head.__wrapped__(classifier, KOREAN)
    assert before == pytest.approx(classifier(KOREAN).probabilities, abs=1e-6)
    for layer in (1, 2):
        for head in (1, 2):
            single = classifier.run_with_cache(KOREAN, heads_off=[(layer, head)])
            assert alone[layer - 1, head - 1] == pytest.approx(
                single.value("probabilities")[0], abs=1e-6)
