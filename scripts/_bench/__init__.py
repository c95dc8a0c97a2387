"""`./vpm bench`: measures cost and speed. Each figure is shown next to a baseline measured in the same run."""
