"""A BERT written from scratch, its training, and the views that let people look inside it."""
