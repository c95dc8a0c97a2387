"""`./vpm bench`: measures cost and speed, each figure next to a baseline of the same run."""
