"""Texts to speak: a grammar of news sentences to train with, and other texts to test with."""

from __future__ import annotations

import numpy as np

_SUBJECTS = (
    "The minister", "Our reporter", "A spokesman", "The mayor", "Many people", "The big company",
    "My brother", "Bobby", "The player", "The bank", "Members of parliament", "The farmer", "Police",
    "The weather office", "A famous painter", "Both teams", "The queen", "A young woman",
    "Five thousand visitors", "The hospital", "Paul", "Their lawyer",
)  # fmt: skip
_VERBS = (
    "will open", "has promised", "may bring back", "is planning", "started", "stopped", "wants to improve",
    "bought", "published", "supports", "built", "moved", "could remove", "keeps", "presented", "voted for",
    "showed us", "found", "used to have", "should choose", "opposes", "missed",
)  # fmt: skip
_OBJECTS = (
    "a new bridge", "the museum", "a map of Europe", "the main problem", "more public transport",
    "seven paper boats", "the old promise", "a bigger budget", "some good music", "a huge power plant",
    "the football match", "its plans for summer", "a warm and empty room", "the price of bread",
    "an important report", "a blue and white ship", "the two jobs", "a very quiet village",
    "the whole truth", "these photographs", "a choice of schools",
)  # fmt: skip
_ENDINGS = (
    "this morning", "before Monday", "near the river", "by the end of May", "in Bombay",
    "after a long debate", "for the first time", "with a smile", "on Tuesday evening", "at home",
    "without much hope", "in the middle of the storm", "again", "among friends", "since October",
    "for you and me", "as far as we know", "just outside the city", "over the weekend",
)  # fmt: skip

OTHER_TEXTS = (
    "Could you please repeat that? I believe the number is forty one, not fourteen.",
    "Once upon a time, a tiny frog jumped over a lazy dog and swam home.",
    "My grandmother bakes apple pie with butter, pepper and a bit of rum.",
    "How much wood could a beaver move, if a beaver could move wood?",
    "Welcome aboard. Please fasten your belts and put away all bags.",
    "Mix the flour with a cup of milk, then warm it up slowly.",
    "Two tall trees stood by the blue pool; nobody knew who grew them.",
    "Maybe we ought to postpone the meeting until everybody is back.",
    "He shouted: stop! But the boat had already left the harbour.",
    "Big brown bears eat plums, and small bees make honey in spring.",
    "I am happy to tell you that your passport is ready for pick up.",
    "Physics explains why a magnet can push, pull, or hover in vapour.",
    "If it rains on Friday, take the bus; if not, we can walk home together.",
    "Open the window, close the door, and turn off the lamp, Mum.",
    "She sells sea shells, he peels potatoes, and they both feel free.",
    "The amber beams of the lighthouse swept over empty foam.",
)
"""Texts of other kinds than the grammar's, for tests of what was learned."""


def news_sentences(n: int, seed: int) -> list[str]:
    """Sentences of the grammar; the same for the same seed."""
    draw = np.random.default_rng(seed)
    sentences = []
    for _ in range(n):
        parts = (str(draw.choice(words)) for words in (_SUBJECTS, _VERBS, _OBJECTS, _ENDINGS))
        sentences.append(" ".join(parts) + ".")
    return sentences
