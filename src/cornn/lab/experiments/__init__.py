"""Many training runs: reproducing the paper, comparing tuned models, searching settings."""
