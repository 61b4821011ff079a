"""What ships with the package so that everything runs offline: two models, scenes and reviews."""
