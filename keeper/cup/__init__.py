"""The tournament's jobs: paper markets follow the listed ones, and roulette rounds go round."""
