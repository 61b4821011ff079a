"""The benchmarks, one file each, and what several of them share."""
