"""The language of stories, how they are matched, how they are played."""
