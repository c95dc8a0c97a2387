"""From rows of the projections to the values `core.mirror` computes with; readers of the tables go through here."""
