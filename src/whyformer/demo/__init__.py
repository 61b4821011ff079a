"""What ships with the package so that everything runs offline: models, scenes, captions,
stories and reviews."""
