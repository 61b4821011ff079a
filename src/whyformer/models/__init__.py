"""Loading a model with its preprocessing: from this package, a directory, the hub or timm."""
