"""Which method explains a model best: the paper's benchmarks and their measures."""
