"""The parts of the text classifier: training on lines, prediction, compression."""
