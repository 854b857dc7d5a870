"""What happens on the page: a text is sent, chosen, cleared, brought back; a page is opened."""

import json

import numpy as np
import pytest
from asking import TEXT, event, play, post
from gradio import SelectData

import app
from bert.errors import UserError
from bert.page.limits import LARGEST_REQUEST
from bert.page.visit import MOST_LETTERS, MOST_TEXTS, REPLAYED, Visit
from bert.studies.base import LONGEST, unpack

EMPTY = '{"texts": [], "lang": "en"}'


def told(*texts: str, **more) -> str:
    return json.dumps({"texts": texts, **more})


def bubbles(*texts: str) -> list[dict]:
    """The chat of these texts and their answers, as the browser sends it back."""
    return [{"role": role, "content": [{"type": "text", "text": text}]}
            for text in texts for role in ("user", "assistant")]


def say(address: str, text: str, chat: list, visit: str) -> tuple[str, list, str, str]:
    """What the page gets for a text: the empty box, the chat with its bubble, bars, the visit."""
    bars, now, box = play(address, "say", text, visit)
    chat, _ = play(address, "add_bubble", text, chat, visit)
    return box, chat, bars, now


# ---------------------------------------------------------------------------------- answers


def test_the_page_gets_everything_it_draws_in_one_answer(server, classifier):
    box, chat, bars, visit = say(server.address, TEXT, [], EMPTY)
    given = json.loads(bars)["answer"]
    expected = classifier(TEXT)
    assert box == "" and [message["role"] for message in chat] == ["user"]
    assert json.loads(visit)["texts"] == [TEXT]
    assert given["probabilities"] == pytest.approx(expected.probabilities.tolist(), abs=1e-6)
    assert given["care"] is False
    assert [item["key"] for item in given["model"]["classes"]] == list(classifier.keys)
    assert given["model"]["hash"] == classifier.checkpoint.digest()
    matrices = unpack(given["matrices"])
    assert matrices.shape == (2 * 2 + 1, len(given["pieces"]), len(given["pieces"]))
    np.testing.assert_allclose(matrices[3], expected.attentions[1, 1], atol=0.5 / 255 + 1e-5)


def test_the_reply_names_the_feeling_and_colours_the_words(server, classifier):
    _, chat, _, visit = say(server.address, TEXT, [], EMPTY)
    chat, strip = play(server.address, "reply", chat, visit)
    assert [message["role"] for message in chat] == ["user", "assistant"]
    assert "achievement" in chat[1]["content"][0]["text"]
    found = json.loads(strip)
    assert (found["text"], found["key"]) == (TEXT, "achievement")
    assert len(found["values"]) == len(classifier(TEXT).tokens)


@pytest.mark.parametrize("chat", [
    bubbles("i am sad"),
    [*bubbles("i am sad")[:1], *bubbles(TEXT)[:1]]], ids=["the last text", "the first answer"])
def test_a_bubble_that_was_lost_between_two_texts_comes_back(server, chat):
    """The answer to the first text and the second text can cross each other on the way."""
    chat, strip = play(server.address, "reply", chat, told("i am sad", TEXT))
    assert [message["role"] for message in chat] == ["user", "assistant"] * 2
    assert TEXT in chat[2]["content"][0]["text"] and json.loads(strip)["text"] == TEXT


def test_a_long_text_is_cut_and_says_where(server, classifier):
    _, _, bars, _ = say(server.address, "마라톤을 완주했다 " * 60, [], EMPTY)
    given = json.loads(bars)["answer"]
    assert given["truncated"]
    assert len(given["pieces"]) == classifier.config.max_position_embeddings
    assert given["text"].startswith(given["read"])


def test_half_a_character_is_replaced(server):
    _, _, bars, visit = say(server.address, "마라톤 \ud800", [], EMPTY)
    assert json.loads(visit)["texts"] == ["마라톤 \ufffd"]
    assert json.loads(bars)["answer"]["text"] == "마라톤 \ufffd"


def test_a_text_of_spaces_is_not_sent(server):
    box, chat, *_ = say(server.address, " \n", bubbles(TEXT), told(TEXT))
    assert box == "" and len(chat) == 2


def test_without_a_classifier_the_page_still_answers(serve, pretrained_folder):
    server = serve(pretrained_folder)
    _, chat, bars, visit = say(server.address, TEXT, [], EMPTY)
    given = json.loads(bars)["answer"]
    assert given["probabilities"] == [] and given["model"]["has_classifier"] is False
    chat, strip = play(server.address, "reply", chat, visit)
    assert chat[1]["content"][0]["text"] and strip == ""


def test_an_opened_page_gets_its_conversation_in_its_language(server):
    visit = told(TEXT, "i am sad", current=0, lang="ko")
    bars, = play(server.address, "show", visit)
    assert json.loads(bars)["current"] == 0
    title, *_ = play(server.address, "labels", visit)
    assert "감정" in title["value"]
    chat, strip = play(server.address, "recall", visit)
    assert len(chat) == 4 and "성취" in chat[1]["content"][0]["text"]
    assert json.loads(strip)["text"] == TEXT


def test_what_was_cleared_comes_back(server):
    """The server keeps it for this visitor only."""
    def happens(name, *values, session):
        return post(server.address, "predict", *values, fn_index=event(name),
                    session_hash=session)["data"]

    chat, bars, *_ = happens("clear", told(TEXT), session="one")
    assert (chat, bars) == ([], "")
    bars, _, visit = happens("undo_clear", None, EMPTY, session="one")
    assert json.loads(bars)["messages"] == [TEXT] == json.loads(visit)["texts"]
    assert happens("undo_clear", None, EMPTY, session="another")[0] == ""


# ---------------------------------------------------------------------------------- the visit


def picked(index, value=None) -> SelectData:
    return SelectData(None, {"index": index, "value": value})


@pytest.mark.parametrize("shown", [14, REPLAYED])  # the whole chat; what a reload leaves of it
def test_a_bubble_brings_its_own_text_on_show(shown):
    texts = [f"text {number}" for number in range(14)]
    chat = bubbles(*texts[-shown:])
    for place in range(2 * shown):
        visit = Visit.read(app.choose_message(chat, told(*texts), picked(place)))
        assert visit.texts[visit.shown] == texts[14 - shown + place // 2]


@pytest.mark.parametrize("index", [None, "x", [], [[1]], {"a": 1}, 1.5])
def test_a_bubble_that_is_none_is_one_sentence(index):
    with pytest.raises(UserError, match="reload it"):
        app.choose_message(bubbles(TEXT), told(TEXT), picked(index))


@pytest.mark.parametrize("value", [None, "{", 7, ["x"]])
def test_a_question_that_is_none_is_one_sentence(value):
    with pytest.raises(UserError, match="reload it"):
        app.follow_up(picked(0, value))


@pytest.mark.parametrize("given", [
    "{", "[]", '{"texts": 1}', '{"texts": [1]}', '{"lang": "fr"}', '{"current": "x"}',
    json.dumps({"texts": ["a" * (LONGEST + 1)]}), json.dumps({"texts": ["a"] * (MOST_TEXTS + 1)})])
def test_a_visit_that_cannot_be_read_is_one_sentence(given):
    with pytest.raises(UserError, match="reload it"):
        Visit.read(given)


def test_the_oldest_texts_make_room_so_that_a_request_stays_small_enough(monkeypatch, classifier):
    """However much somebody writes, the next request of the page can be sent."""
    monkeypatch.setattr(app.model, "_context", type("Context", (), {"classifier": classifier}))
    chat, visit = [], EMPTY
    for number in range(40):
        text = f"{number} " + "가나다 " * 1_200
        chat, _ = app.add_bubble(text, chat, visit)
        _, visit, _ = app.say(text, visit)
        chat.append({"role": "assistant", "content": "x"})
    kept = Visit.read(visit).texts
    assert kept[-1].startswith("39 ") and sum(map(len, kept)) <= MOST_LETTERS
    assert len(chat) == 2 * len(kept)
    request = json.dumps({"data": ["", chat, visit]}, ensure_ascii=False)
    assert len(request.encode()) < LARGEST_REQUEST
