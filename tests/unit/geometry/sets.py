"""Which multisets of kinds a board can hold, as NVIDIA's documentation and tools have it."""

from __future__ import annotations

from tests.support.cuts import FOUR, SEVEN, TWELVE

FEASIBLE = {
    SEVEN: (
        "7g",
        "4g 3g",
        "4g 2g 1g",
        "4g 1g 1g 1g",
        "3g 3g",
        "3g 2g 1g",
        "3g 2g 1g 1g",
        "3g 2g 2g",
        "3g 1g 1g 1g 1g",
        "2g 2g 2g 1g",
        "2g 2g 1g 1g 1g",
        "2g 1g 1g 1g 1g 1g",
        "1g 1g 1g 1g 1g 1g 1g",
        "1gx2 1gx2 1gx2 1gx2",
        "2g 2g 2g 1gx2",
        "3g 2g 1g 1g+me",
        "1g 1g 2g 3g",
    ),
    FOUR: ("4g", "2g 2g", "2g 1g 1g", "1g 1g 1g 1g", "2g 1g 1g+me"),
    TWELVE: (
        "4g",
        "2g 2g",
        "2g 1g 1g",
        "1g 1g 1g 1g",
        "1g+gfx 1g+gfx 1g+gfx 1g+gfx",
        "2g+gfx 2g+gfx",
        "1g+me.all 1g-me 1g-me 1g-me",
        "2g+me.all 2g-me",
    ),
}

# kinds, a part of the reason
INFEASIBLE = {
    SEVEN: (
        ("3g 3g 1g", "3g.40gb + 3g.40gb + 1g.10gb: memory slices 9 of 8"),
        ("4g 3g 1g", "memory slices 9 of 8, compute slices 8 of 7"),
        ("4g 4g", "4g.40gb + 4g.40gb: compute slices 8 of 7"),
        ("7g 1g", "memory slices 9 of 8"),
        ("1g 1g 1g 1g 1g 1g 1g 1g", "8 x 1g.10gb: compute slices 8 of 7"),
        ("2g 2g 2g 2g", "compute slices 8 of 7"),
        ("1g+me 1g+me", "a GPU takes at most 1 of 1g.10gb+me"),
        ("4g 2g 2g", "compute slices 8 of 7"),
        ("1gx2 1gx2 1gx2 1gx2 1g", "memory slices 9 of 8"),
        ("3g 3g 1gx2", "memory slices 10 of 8"),
        ("3g 3g 3g", "memory slices 12 of 8"),
        ("4g 1gx2 1gx2 1gx2", "memory slices 10 of 8"),
    ),
    FOUR: (
        ("4g 1g", "memory slices 5 of 4"),
        ("2g 2g 1g", "memory slices 5 of 4"),
        ("1g 1g 1g 1g 1g", "memory slices 5 of 4"),
        ("1g+me 2g+me", "only one instance of a GPU may have the media extensions"),
    ),
    TWELVE: (
        ("4g 1g", "memory slices 15 of 12"),
        ("1g+me.all 1g", "the others must be -me: 1g.24gb is not"),
        ("1g+me.all 1g+me", "the others must be -me: 1g.24gb+me is not"),
        ("1g+me.all 2g+me.all", "only one instance of a GPU may have all media engines"),
        ("2g 2g 1g", "memory slices 15 of 12"),
        ("1g+me 1g+me", "a GPU takes at most 1 of 1g.24gb+me"),
    ),
}
