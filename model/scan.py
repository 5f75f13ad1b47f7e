"""How `digits` sees its pictures; the recipe trains on it, and the exporter writes it into the artifact."""

BOX = 20  # the longer side of a digit's bounding box, in pixels of the network's input
MEAN, STD = 0.15, 0.3  # of the pixels in [0, 1]
