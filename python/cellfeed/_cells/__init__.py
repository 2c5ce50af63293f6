"""What a collection of cells is made of: names, labels and genes."""
