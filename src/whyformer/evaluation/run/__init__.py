"""How a benchmark is run: sample by sample, resumable, kept on disk, timed."""
