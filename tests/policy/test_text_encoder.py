"""Token ids of a text decode to the same text, or there are none, with every style of tokenizer."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from upsolve.policy.text_encoder import TextEncoder
from upsolve.policy.tokens import Codec
from upsolve.types import Attempt

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz0123456789=()'<>/_:\n▁"]
PIECES = ["<unk>", "<s>", "</s>", *BYTES, *LETTERS, "de", "def", "▁▁", "▁def", "x0"]
MERGES = [("d", "e"), ("de", "f"), ("▁", "▁"), ("▁", "def"), ("x", "0")]
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
TO_TEXT = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
TO_PIECES = normalizers.Replace(" ", "▁")


def bpe():
    vocabulary = {piece: index for index, piece in enumerate(PIECES)}
    return Tokenizer(models.BPE(vocabulary, MERGES, unk_token="<unk>", fuse_unk=True, byte_fallback=True))


def unigram(pieces=PIECES, *, byte_fallback=True):
    scores = [(piece, 0.0 if piece[0] == "<" else -2.0) for piece in pieces]
    return Tokenizer(models.Unigram(scores, unk_id=0, byte_fallback=byte_fallback))


def llama2():
    core = bpe()
    core.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), TO_PIECES])
    core.decoder = decoders.Sequence([*TO_TEXT, decoders.Strip(" ", 1, 0)])
    return core


def metaspace(scheme):
    core = bpe()
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    core.decoder = decoders.Sequence([*TO_TEXT, decoders.Strip(" ", 1, 0)])
    return core


def gemma():
    core = bpe()
    core.normalizer, core.pre_tokenizer = TO_PIECES, pre_tokenizers.Split(" ", "merged_with_previous")
    core.decoder = decoders.Sequence(TO_TEXT)
    return core


def sentencepiece(*, byte_fallback=True, pieces=PIECES):
    """A unigram model that joins blanks and replaces characters, as T5's."""
    core = unigram(pieces, byte_fallback=byte_fallback)
    core.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    core.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(prepend_scheme="always")])
    core.decoder = decoders.Sequence([*TO_TEXT, decoders.Strip(" ", 1, 0)])
    return core


def byte_level(alphabet=ALPHABET, *, blank=False):
    vocabulary = {piece: index for index, piece in enumerate([*alphabet, "<s>", "de", "def", "Ġdef"])}
    core = Tokenizer(models.BPE(vocabulary, [("d", "e"), ("de", "f"), ("Ġ", "def")]))
    core.normalizer, core.decoder = normalizers.NFC(), decoders.ByteLevel()
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=blank)]
    )
    return core


def with_html(core):
    """A tokenizer with a token that takes the blanks around."""
    core.add_tokens([AddedToken("<table>", lstrip=True, rstrip=True, normalized=False)])
    return core


EXACT = {
    "byte_level": byte_level,
    "byte_level_blank": lambda: byte_level(blank=True),
    "llama2": llama2,
    "metaspace_first": lambda: metaspace("first"),
    "metaspace_always": lambda: metaspace("always"),
    "gemma": gemma,
    "unigram": sentencepiece,
    "blanks_of_a_token": lambda: with_html(gemma()),
    "byte_level_blanks_of_a_token": lambda: with_html(byte_level()),
}
INEXACT = {
    "a_byte_is_missing": lambda: byte_level([piece for piece in ALPHABET if piece != "!"]),
    "no_bytes": lambda: sentencepiece(byte_fallback=False, pieces=[piece for piece in PIECES if piece not in BYTES]),
}
ODD = ["▁", "Ġ", "\0", "\r\n", "\x1b", "  ", "\t", "e\u0301", "é", "ﬁ", "２", "<0x41>", "<s>", "</s>", "<unk>", " <table> "]
SCRIPTS = ["中文", "कि", "עִ", "한", "ไทย", "\u200d", "🧑‍🚀", "\ue000", "\U0010ffff", "\ufffd", "\ufeff"]
TEXTS = st.lists(st.sampled_from([*ODD, *SCRIPTS, "def", " ", "\n", "x = 0", "!"]) | st.text(max_size=4), max_size=8)


def encoder_of(core):
    return TextEncoder(PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>"))


def check_exact(encoder, text, ids):
    """The ids behind a prompt decode to the text behind that prompt, and every character has a token."""
    prompt = encoder.tokenizer("def x:\n", add_special_tokens=False)["input_ids"]
    decoded = [encoder.tokenizer.decode(whole, clean_up_tokenization_spaces=False) for whole in (prompt, [*prompt, *ids])]
    assert decoded[1] == decoded[0] + text and encoder.decode(ids) == text
    assert not {*encoder.control.values()} & {*ids}
    spans = encoder.spans(text)
    assert len(spans) == len(ids) and spans == sorted(spans)
    assert {index for start, end in spans for index in range(start, end)} == {*range(len(text))}


@pytest.mark.parametrize("name", EXACT)
def test_every_text_is_encoded_as_itself(name):
    encoder = encoder_of(EXACT[name]())

    @settings(max_examples=40)
    @given(TEXTS.map("".join))
    @example("".join(ODD + SCRIPTS))
    def check(text):
        text = text.encode("utf-8", "ignore").decode()
        check_exact(encoder, text, encoder.ids([text])[0])

    check()


@pytest.mark.parametrize("name", INEXACT)
def test_a_text_that_cannot_be_expressed_has_no_ids(name):
    encoder = encoder_of(INEXACT[name]())

    @settings(max_examples=40)
    @given(TEXTS.map("".join))
    def check(text):
        text = text.encode("utf-8", "ignore").decode()
        if ids := encoder.ids([text])[0]:
            check_exact(encoder, text, ids)

    check()
    assert encoder.ids(["def!"]) == [()] and encoder.ids(["def"])[0]


@pytest.mark.parametrize("core", [byte_level(), INEXACT["a_byte_is_missing"]()])
def test_plain_text_needs_no_copy_of_a_byte_level_tokenizer(core, monkeypatch):
    """A copy takes seconds, and encoding text by text twice the time."""
    encoder = encoder_of(core)
    monkeypatch.setattr(TextEncoder, "encoded", None)
    assert encoder.ids(["def f"]) == [tuple(encoder.tokenizer("def f", add_special_tokens=False)["input_ids"])]


def test_what_a_tokenizer_changes_is_bytes_and_the_rest_is_its_own():
    encoder = encoder_of(gemma())

    def names(text):
        return encoder.tokenizer.convert_ids_to_tokens(encoder.ids([text])[0])

    assert names(" def x0") == ["▁def", "▁", "x0"]
    assert names("def '▁' def") == ["def", "▁", "'", "<0xE2>", "<0x96>", "<0x81>", "'", "▁def"]
    assert [*map(names, ("é", "▁"))] == [["<0xC3>", "<0xA9>"], ["<0xE2>", "<0x96>", "<0x81>"]]


@pytest.mark.parametrize("name", ["llama2", "metaspace_first", "byte_level_blank"])
def test_a_completion_begins_without_a_blank_that_it_does_not_have(name):
    encoder = encoder_of(EXACT[name]())
    first = [encoder.tokenizer.convert_ids_to_tokens(ids)[0] for ids in encoder.ids(["def", " def"])]
    assert first[0] == "def" and first[1] in ("▁def", "Ġdef")


@pytest.mark.parametrize("name", EXACT)
def test_a_prompt_in_parts_has_the_blanks_of_the_tokenizer(name):
    encoder = encoder_of(EXACT[name]())
    for text in ("def x", " def x", "<s>def<s> def", "<s> x<s><s>x"):
        own = encoder.tokenizer(text, add_special_tokens=False)["input_ids"]
        assert encoder.made(text, str) == tuple(own), text


@pytest.mark.parametrize("answers", [False, True])
def test_an_attempt_that_cannot_be_expressed_has_no_ids(answers):
    codec = Codec(encoder_of(INEXACT["a_byte_is_missing"]()).tokenizer, answers=answers)
    assert [bool(ids) for ids in codec.ids_of_all([Attempt("t", "a = b"), Attempt("t", "a != b")])] == [True, False]


def test_the_copy_without_special_tokens_is_made_once_for_equal_tokenizers():
    first, second, other = (TextEncoder(PreTrainedTokenizerFast(tokenizer_object=gemma())) for _ in range(3))
    other.tokenizer.add_special_tokens({"additional_special_tokens": ["<turn>"]})
    assert first.literal is second.literal and TextEncoder(other.tokenizer).literal is not first.literal
