"""Text that is made up: sentences of a small grammar, the same ones each time. What a model of letters can learn of it is
how words are spelled and in which order they come."""

import numpy as np

WHO = ["the cat", "the old dog", "a bird", "my friend", "the miller", "our queen", "a small boat", "the wind", "nobody", "the moon"]
DOES = ["sees", "follows", "likes", "carries", "forgets", "wants", "finds", "paints"]
WHAT = ["the river", "a red apple", "the morning", "two stones", "an open door", "the long road", "her name", "a song", "the sea"]
HOW = ["today", "at night", "in silence", "without a word", "again", "slowly", "with great care"]
JOIN = ["and", "but", "while", "because"]


def text(sentences=2000, seed=0):
    """Sentences in lower case, a line each."""
    rng = np.random.default_rng(seed)

    def clause():
        words = [rng.choice(WHO), rng.choice(DOES), rng.choice(WHAT)]
        return " ".join([*words, rng.choice(HOW)] if rng.random() < 0.5 else words)

    lines = []
    for _ in range(sentences):
        line = clause()
        if rng.random() < 0.4:
            line += f" {rng.choice(JOIN)} {clause()}"
        lines.append(line + ".")
    return "\n".join(lines)
