"""From what was found to verdicts: what the evidence is worth, and what was predicted."""
