"""The page about the language names all of it."""

from __future__ import annotations

import pathlib

import pytest

from services.rehearsal import cast, language, steps, vocabulary

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "rehearsal.md"
WORDS = {
    *language.PARTS,
    *cast.NODE_KEYS,
    *cast.GPU_KEYS,
    *cast.SWITCHES,
    *steps.FAULT_KEYS,
    *steps.NVML_KEYS,
    *steps.POD_KEYS,
    *steps.Reader({}).kinds,
    *(about.value for about in vocabulary.KEYS),
    *(key for keys in vocabulary.KEYS.values() for key in keys),
    *vocabulary.SLOT_STATES,
}


@pytest.mark.parametrize("word", sorted(WORDS))
def test_every_word_of_the_language_stands_on_its_page(word: str) -> None:
    """Whoever adds a step or a condition tells it there."""
    assert word in PAGE.read_text(encoding="utf-8")


def test_the_story_on_the_page_is_a_right_one() -> None:
    """What people copy can be read."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition("```yaml\n")
    assert language.read(rest.partition("```")[0], "page").steps
