"""What is evaluated: images and documents, one sample at a time, with what is known of them."""
