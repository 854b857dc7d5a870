"""What can be computed about one answer: arrays in, arrays out, no page, no drawing."""
