"""How GPUs are cut: names, texts, placements, reasons and plans."""
