"""Rehearsals: a YAML story → steps → played on an embedded cluster → what was seen."""
