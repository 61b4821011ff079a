"""Side by side with the packages that people already use: one module for each of them."""
