"""`./vpm bench`: what the product costs and how fast it is, each figure beside a baseline of the same run."""
