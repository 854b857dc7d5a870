"""From text files to weights: corpora, labelled lines, batches, one loop, its metrics."""
